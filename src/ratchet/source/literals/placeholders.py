"""Placeholders in a literal's text, which a library fills later: `{{name}}`, `{name}`, `%s`.

What a template engine does to a value, as in `{{ name | upper }}`, is part of the placeholder.

Whether a text is filled, and by which rules, is not visible in the literal. A form is assumed where
the template has slots at its placeholders.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from ratchet.source.literals.literal import (
    Inexpressible,
    Literal,
    LiteralBuilder,
    Slot,
    is_mark,
    parts_of,
)

_NAME = r"[A-Za-z_][\w.\-]*(?:\[[\w'\"]+\])*"


@dataclass(frozen=True)
class Form:
    """One form of placeholders."""

    pattern: re.Pattern[str]
    """Placeholders, and pieces that stand for other text."""
    doubled: str = ""
    """Characters that are doubled to stand for themselves."""
    reserved: str = ""
    """Pattern of what constant text may not contain."""
    has_logic: bool = False
    """Whether a template may have blocks, such as loops: each outermost one is a placeholder."""

    def escape(self, text: str) -> str:
        """Constant text as it is written among such placeholders.

        Raises:
            Inexpressible: It would be taken for a placeholder.
        """
        if self.reserved and (match := re.search(self.reserved, text)):
            raise Inexpressible(
                f"its text has {match.group()!r}, which would be read as a placeholder"
            )
        return re.sub(f"[{re.escape(self.doubled)}]", r"\g<0>\g<0>", text) if self.doubled else text


FORMS: Final = {
    "{{name}}": Form(
        re.compile(rf"\{{\{{\{{?-?\s*(?P<name>{_NAME})\s*(?:[|(][^{{}}]*)?-?\}}?\}}\}}"),
        reserved=r"\{[{%#]",
        has_logic=True,
    ),
    "{name}, braces doubled": Form(
        re.compile(
            rf"\{{\{{|\}}\}}|\{{(?P<name>{_NAME})?(?P<position>\d+)?(?:![rsa])?(?::[^{{}}]*)?\}}"
        ),
        doubled="{}",
    ),
    "{name}": Form(re.compile(rf"(?<!\{{)\{{(?P<name>{_NAME})\}}(?!\}})")),
    "${name}": Form(
        re.compile(rf"\$\{{(?P<name>{_NAME})\}}|\$(?P<bare>[A-Za-z_]\w*)"), reserved=r"\$"
    ),
    "%s": Form(
        re.compile(r"%%|%(?P<name>\(\w+\))?[-+ #0]*\d*(?:\.\d+)?[sdifgvqxt]"),
        doubled="%",
    ),
    "<%= name %>": Form(re.compile(rf"<%[=-]\s*(?P<name>{_NAME})\s*-?%>"), reserved="<%"),
}

_TAG = re.compile(r"\{%[-+]?\s*(?P<word>\w+)(?:[^%]|%(?!\}))*%\}")
_ANYTHING = re.compile(r"(?P<name>.+)", re.DOTALL)

BRACES: Final = ("{name}, braces doubled", "{name}")
"""These two cannot be distinguished in a text without other braces."""


def with_placeholders(literal: Literal) -> Iterator[Literal]:
    """A literal with its placeholders as slots, in each form that occurs in it."""
    for name in FORMS:
        converted = as_form(literal, name)
        if converted is not None:
            yield converted


def as_form(literal: Literal, name: str, *, needed: bool = True) -> Literal | None:
    """A literal with placeholders of one form as slots.

    Args:
        literal: The literal.
        name: Name of the form.
        needed: Whether the result is None when it has no placeholders.
    """
    form = FORMS[name]
    matches = [match for match in _found(form, literal.value) if not any(map(is_mark, match[0]))]
    if needed and all(map(_stands_for_itself, matches)):
        return None
    builder = LiteralBuilder()
    at = 0
    for match in matches:
        _copy(builder, literal, at, match.start())
        start, end = literal.starts[match.start()], literal.ends[match.end() - 1]
        token = match.group()
        groups = match.groupdict()
        if _stands_for_itself(match):
            builder.add(token[0], start, end)
        else:
            positional = not any(groups.get(key) for key in ("name", "bare", "position"))
            builder.add_slot(Slot(token, token, positional=positional), start, end)
        at = match.end()
    _copy(builder, literal, at, len(literal.value))
    text = "".join(builder.characters)
    if form.doubled == "{}" and _has_brace(literal, text):
        return None
    return replace(
        literal,
        value=text,
        starts=builder.starts,
        ends=builder.ends,
        slots=tuple(builder.slots),
        placeholders=name,
    )


def _stands_for_itself(match: re.Match[str]) -> bool:
    """Whether a piece is a doubled character, and no placeholder."""
    return match[0] in ("{{", "}}", "%%") and not match.groupdict().get("name")


def _found(form: Form, value: str) -> Iterator[re.Match[str]]:
    """Its placeholders, including blocks of logic."""
    at = 0
    for start, end in _blocks(value) if form.has_logic else ():
        yield from form.pattern.finditer(value, at, start)
        yield from _ANYTHING.finditer(value, start, end)
        at = end
    yield from form.pattern.finditer(value, at)


def _blocks(value: str) -> Iterator[tuple[int, int]]:
    """Ranges of the outermost blocks: `{% for … %}…{% endfor %}`, or other tags with an end tag."""
    depth = begin = 0
    tags = list(_TAG.finditer(value))
    ends = {tag["word"] for tag in tags}
    for tag in tags:
        if f"end{tag['word']}" in ends:
            begin = begin if depth else tag.start()
            depth += 1
        elif tag["word"].startswith("end") and depth:
            depth -= 1
            if not depth:
                yield begin, tag.end()


def _has_brace(literal: Literal, value: str) -> bool:
    """Whether a single brace occurs, which shows that braces are not doubled here."""
    doubled = literal.value.count("{{") + literal.value.count("}}")
    return value.count("{") + value.count("}") > doubled


def _copy(builder: LiteralBuilder, literal: Literal, start: int, end: int) -> None:
    at = start
    for text, number in parts_of(literal.value[start:end]):
        builder.characters += text
        builder.starts += literal.starts[at : at + len(text)]
        builder.ends += literal.ends[at : at + len(text)]
        at += len(text)
        if number >= 0:
            builder.add_slot(literal.slots[number], literal.starts[at], literal.ends[at])
            at += 1
