"""Repairs placeholders that an edit broke if the fix is unambiguous, and reports the others.

A rewritten prompt must use the same fields as before. Models make a few typical mistakes: braces of
an example are left single, braces of a placeholder are doubled or written in another template
language, or a name is respelt. One that is gone is not put back: nobody knows where it belongs.
"""

from __future__ import annotations

import re
import string

from ratchet.types import InputError, PromptTemplate


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
        each = "it" if len(missing) == 1 else "each"
        return None, f"It lost {_listed(missing, parent)}; keep {each} exactly once."
    unknown = template.placeholders - parent.placeholders
    if unknown:
        return None, (
            f"It has {_listed(unknown, parent)}, which nothing fills; only"
            f" {_listed(parent.placeholders, parent) or 'plain text'} is allowed."
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
        spellings = [
            rf"\{{\{{-?\s*{name}\s*-?\}}\}}",  # {{name}}
            rf"\$\{{{name}\}}",  # ${name}
            rf"(?<!\{{)\{{\s*{name}\s*\}}(?!\}})",  # {name}, { name }
            rf"(?i:(?<!\{{)\{{+\s*{name.replace('_', '[ _-]?')}\s*\}}+(?!\}}))",  # {Name}
            rf"(?i:<{name}>|\[{name}\])",
            rf"%\({name}\)s|\${name}\b",
        ]
        for pattern in spellings:
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
    pieces: list[str] = []
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
    for match in pattern.finditer(text):
        doubled = text[: match.start()].endswith("{") and text[match.end() :].startswith("}")
        pieces.append(double(text[position : match.start()]))
        pieces.append(_doubled(match[0]) if doubled else match[0])
        position = match.end()
    pieces.append(double(text[position:]))
    return "".join(pieces)


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _doubled(text: str) -> str:
    """The text with single braces doubled; double braces are unchanged."""
    text = re.sub(r"\{+", lambda run: "{" * (len(run[0]) + len(run[0]) % 2), text)
    return re.sub(r"\}+", lambda run: "}" * (len(run[0]) + len(run[0]) % 2), text)
