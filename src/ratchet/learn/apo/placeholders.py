"""Placeholders that an edit broke: put right where it is plain how, else told.

A rewritten prompt must fill from the same fields as before. What models do to placeholders is
mostly one of a few things: braces of an example are left single, braces of a placeholder are
doubled or written in another template language, a name is spelt in another case, or the line that
held it is gone.
"""

from __future__ import annotations

import re
import string

from ratchet.learn.apo.alignment import MOST, is_reworded, put_back
from ratchet.types import InputError, PromptTemplate


def mended(text: str, parent: PromptTemplate) -> tuple[PromptTemplate | None, str]:
    """A template of an edited text with the placeholders of its parent.

    Args:
        text: The edit.
        parent: The template that was edited.

    Returns:
        The template and an empty text; or None and what is wrong, for the one who wrote it.
    """
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
    """A placeholder as a template of that engine has it."""
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
    """The text with placeholders that were written in another way written in the parent's."""
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
    """The text with all braces doubled but those of the parent's placeholders.

    Pairs count as doubled already, unless the text opens none: then they are two braces.
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
    """Braces doubled; those that are pairs already stay."""
    text = re.sub(r"\{+", lambda run: "{" * (len(run[0]) + len(run[0]) % 2), text)
    return re.sub(r"\}+", lambda run: "}" * (len(run[0]) + len(run[0]) % 2), text)


def _restored(text: str, parent: PromptTemplate, missing: frozenset[str]) -> str:
    """The text with what is missing where it stood, as far as that is plain; else empty.

    Where the texts cannot be aligned, a line comes back that began or ended the parent: a question
    at the end, a context at the start. Not beside another one that says the same.
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
