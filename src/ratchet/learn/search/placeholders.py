"""Repairs placeholders that an edit broke where the fix is unambiguous, and reports the others.

A rewritten prompt must use the same fields as before. Models make a few typical mistakes: braces of
an example are left single, braces of a placeholder are doubled or written in another template
language, a name is respelt, or the line with the placeholder is deleted.
"""

from __future__ import annotations

import re
import string
from difflib import SequenceMatcher
from typing import NamedTuple

from ratchet.types import InputError, PromptTemplate

WORDS_FOR_ONE = 8
"""Maximum number of tokens (words and signs) that may replace a placeholder."""

WORDS_WITH_ONE = 2
"""Maximum number of tokens beside the placeholder that may be replaced together with it."""

MOST = 200
"""Maximum number of characters restored with a placeholder."""

ALIKE = 0.6
"""Share of a line's words in another line from which on the two count as equivalent."""

ANCHOR = 2
"""Number of words next to a position that both texts share and that anchor it."""

FEW = 4
"""Minimum number of words of a line for that comparison."""

_TOKEN = {
    "f-string": re.compile(r"\{\{|\}\}|\{[^{}\n]+\}|\w+|[^\w\s]"),
    "jinja2": re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\w+|[^\w\s]"),
}


class _Span(NamedTuple):
    start: int
    end: int


def put_back(text: str, old: str, name: str, engine: str) -> str:
    """The edited text with a placeholder restored in its old position; empty if ambiguous.

    Args:
        text: The edit, without the placeholder.
        old: The text that was edited.
        name: Name of the placeholder.
        engine: Template engine.
    """
    was, now = _spans(old, engine), _spans(text, engine)
    before, after = ([whole[s.start : s.end] for s in spans] for whole, spans in
                     ((old, was), (text, now)))  # fmt: skip
    places = [n for n, token in enumerate(before) if _is(token, name, engine)]
    if len(places) != 1:
        return ""
    place = places[0]
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        if not i <= place < i_end:
            continue
        if not (
            _is_anchor(before, i - 1, after, j - 1, -1)
            or _is_anchor(before, i_end, after, j_end, 1)
        ):
            return ""
        if tag == "replace":
            start, end = now[j].start, now[j_end - 1].end
            gone = old[was[i].start : was[i_end - 1].end]
            others = [n for n in range(j, j_end) if _is_placeholder(after[n], engine)]
            if len(others) == 1:  # it was only renamed
                renamed = now[others[0]]
                return text[: renamed.start] + before[place] + text[renamed.end :]
            few = i_end - i <= 1 + WORDS_WITH_ONE and j_end - j <= WORDS_FOR_ONE
            if few and "\n" not in gone and "\n" not in text[start:end]:
                return text[:start] + gone + text[end:]
        if tag == "delete":
            return _inserted(text, old, now, was, (i, i_end), place, j)
        return ""
    return ""


def is_reworded(line: str, text: str) -> bool:
    """Whether some line of a text is nearly equivalent: adding the line would duplicate it."""
    words = _words(line)
    if len(words) < FEW:
        return False
    return any(
        len(words & _words(other)) >= ALIKE * len(words) for other in text.splitlines() if other
    )


def _is_anchor(before: list[str], i: int, after: list[str], j: int, step: int) -> bool:
    """Whether both texts have the same words next to the position, in the given direction."""
    words = 0
    while 0 <= i < len(before) and 0 <= j < len(after) and before[i] == after[j]:
        words += before[i][0].isalnum()
        i, j = i + step, j + step
    return words >= ANCHOR


def _inserted(
    text: str,
    old: str,
    now: list[_Span],
    was: list[_Span],
    gone: tuple[int, int],
    place: int,
    at: int,
) -> str:
    """The text with the omitted part restored: of several lines, only the placeholder's."""
    first, last = gone
    while "\n" in old[was[first].end : was[place].start]:
        first += 1
    while "\n" in old[was[place].end : was[last - 1].start]:
        last -= 1
    if at:  # behind the word that preceded it, with the white space between them
        piece = old[was[first - 1].end if first else 0 : was[last - 1].end]
        position = now[at - 1].end
    else:
        piece = old[was[first].start : was[last].start if last < len(was) else len(old)]
        position = now[0].start if now else 0
    if len(piece) > MOST:
        return ""
    rest = text[position:]
    if at and re.match(r"[ \t]+[.,;:!?)]", rest):
        rest = rest.lstrip(" \t")
    return text[:position] + piece + rest


def _spans(text: str, engine: str) -> list[_Span]:
    return [_Span(*found.span()) for found in _TOKEN[engine].finditer(text)]


def _is(token: str, name: str, engine: str) -> bool:
    return _is_placeholder(token, engine) and bool(
        re.match(r"\{+-?\s*" + re.escape(name) + r"\b", token)
    )


def _is_placeholder(token: str, engine: str) -> bool:
    if engine == "jinja2":
        return token.startswith("{{") and token.endswith("}}")
    return len(token) > 2 and token.startswith("{") and token.endswith("}")


def _words(line: str) -> set[str]:
    return set(re.findall(r"\w+", re.sub(r"\{[^{}]*\}", " ", line.lower())))


def mended(text: str, parent: PromptTemplate) -> tuple[PromptTemplate | None, str]:
    """A template of an edited text with the placeholders of its parent.

    Args:
        text: The edit.
        parent: The template that was edited.

    Returns:
        The template and an empty text; or None and the fault, for the author of the edit.
    """
    template, problem = _made(text, parent)
    if template is not None and template.placeholders == parent.placeholders:
        return template, ""  # nothing to repair: to the byte
    jinja = parent.engine == "jinja2"
    text = _respelt(text, parent)
    template, problem = _made(text, parent)
    if template is None and not jinja:
        text = escaped_but(text, parent)
        template, problem = _made(text, parent)
    if template is None:
        return None, problem
    missing = parent.placeholders - template.placeholders
    if missing:
        again = _restored(text, parent, missing)
        template = _made(again, parent)[0] if again else None
        if template is None or parent.placeholders - template.placeholders:
            return None, f"It lost {_listed(missing, parent)}, which must stay in it exactly once."
    unknown = template.placeholders - parent.placeholders
    if unknown:
        return None, (
            f"It has {_listed(unknown, parent)}, which nothing fills; only"
            f" {_listed(parent.placeholders, parent) or 'plain text'} may stand in it."
        )
    return template, ""


def written(name: str, engine: str) -> str:
    """A placeholder in the template engine's syntax."""
    return "{{ " + name + " }}" if engine == "jinja2" else "{" + name + "}"


def _listed(names: frozenset[str], parent: PromptTemplate) -> str:
    forms = [written(name, parent.engine) for name in sorted(names)]
    noun = "the placeholder" if len(forms) == 1 else "the placeholders"
    return f"{noun} {', '.join(forms)}" if forms else ""


def _made(text: str, parent: PromptTemplate) -> tuple[PromptTemplate | None, str]:
    try:
        return PromptTemplate(text, parent.engine), ""
    except InputError as error:
        return None, error.message


def _respelt(text: str, parent: PromptTemplate) -> str:
    """The text with placeholders in another syntax or spelling rewritten as in the parent."""
    for name in sorted(parent.placeholders):
        right = written(name, parent.engine)
        if parent.engine == "f-string" and f"${right}" not in parent.text:
            text = text.replace(f"${right}", right)
        if _has(text, name, parent):
            continue
        other = [
            rf"\{{\{{-?\s*{name}\s*-?\}}\}}",  # {{name}}
            rf"\$\{{{name}\}}",  # ${name}
            rf"(?<!\{{)\{{\s*{name}\s*\}}(?!\}})",  # {name}, { name }
            rf"(?i:(?<!\{{)\{{+\s*{name.replace('_', '[ _-]?')}\s*\}}+(?!\}}))",  # {Name}
            rf"(?i:<{name}>|\[{name}\])",
            rf"%\({name}\)s|\${name}\b",
        ]
        for pattern in other:
            text, count = re.subn(pattern, right.replace("\\", r"\\"), text)
            if count:
                break
    return text


def _has(text: str, name: str, parent: PromptTemplate) -> bool:
    template = _made(text, parent)[0]
    if template is not None:
        return name in template.placeholders
    if parent.engine == "jinja2":
        return False
    return re.search(rf"(?<!\{{)(?:\{{\{{)*\{{{name}[}}!:.\[]", text) is not None


def escaped_but(text: str, parent: PromptTemplate) -> str:
    """The text with all braces escaped except the parent's placeholders.

    Double braces count as escaped already, unless the text has no single opening brace: then they
    are two literal braces.
    """
    kept: list[str] = []
    double = _doubled if "{{" in text else _literal
    fields = {
        (name, conversion, spec)
        for _, name, spec, conversion in string.Formatter().parse(parent.text)
        if name is not None
    }
    forms = {
        "{" + name + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "") + "}"
        for name, conversion, spec in fields
    } | {"{" + name + "}" for name in parent.placeholders}
    position = 0
    pattern = re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True))) or r"(?!)")
    for found in pattern.finditer(text):
        doubled = text[: found.start()].endswith("{") and text[found.end() :].startswith("}")
        kept.append(double(text[position : found.start()]))
        kept.append(_doubled(found[0]) if doubled else found[0])
        position = found.end()
    kept.append(double(text[position:]))
    return "".join(kept)


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _doubled(text: str) -> str:
    """The text with single braces doubled; double braces are unchanged."""
    text = re.sub(r"\{+", lambda run: "{" * (len(run[0]) + len(run[0]) % 2), text)
    return re.sub(r"\}+", lambda run: "}" * (len(run[0]) + len(run[0]) % 2), text)


def _restored(text: str, parent: PromptTemplate, missing: frozenset[str]) -> str:
    """The text with missing placeholders restored where unambiguous; else empty.

    If the texts cannot be aligned, a line that was first or last in the parent is restored: a
    question at the end, a context at the start. Not if an equivalent line exists.
    """
    for name in sorted(missing):
        again = put_back(text, parent.text, name, parent.engine)
        if again:
            text, missing = again, missing - {name}
    if not missing:
        return text
    lines = parent.text.strip().splitlines()
    head: list[str] = []
    tail: list[str] = []
    for name in sorted(missing):
        holding = [n for n, line in enumerate(lines) if _mentions(line, name, parent)]
        if len(holding) != 1 or len(lines[holding[0]]) > MOST or len(lines) < 2:
            return ""
        line = lines[holding[0]]
        if is_reworded(line, text):
            return ""
        if holding[0] >= len(lines) - 2:
            tail.append(line)
        elif holding[0] == 0:
            head.append(line)
        else:
            return ""
    kept = [line for line in dict.fromkeys(tail) if line not in text]
    first = [line for line in dict.fromkeys(head) if line not in text]
    return "\n\n".join([*first, text.strip(), *kept])


def _mentions(line: str, name: str, parent: PromptTemplate) -> bool:
    try:
        return name in PromptTemplate(line, parent.engine).placeholders
    except InputError:
        return False
