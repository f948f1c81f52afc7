"""An f-string as a template with named slots that yields the same text in every call."""

from __future__ import annotations

import ast
import keyword
import re

_PURE = (ast.Name, ast.Attribute, ast.Constant, ast.Subscript, ast.Load, ast.Slice, ast.Tuple)


class Refused(Exception):
    """A prompt that cannot be declared; the message says why."""


def template_of(node: ast.JoinedStr) -> tuple[str, dict[str, str]]:
    """The template's text, and the source of each of its slots in the order of evaluation.

    An f-string formats each slot before it evaluates the next; `format` does so at the end. So what
    stands before a slot that may change something is formatted at once, and is not read again for
    one that stands behind it.

    Raises:
        Refused: A slot assigns or yields, or cannot be written outside the f-string.
    """
    values = node.values
    acting = [n for n, part in enumerate(values) if not _is_pure(part)]
    last = acting[-1] if acting else -1
    text: list[str] = []
    fields: dict[str, str] = {}
    names: dict[str, str] = {}
    for number, value in enumerate(values):
        if not isinstance(value, ast.FormattedValue):
            assert isinstance(value, ast.Constant)
            text.append(str(value.value).replace("{", "{{").replace("}", "}}"))
            continue
        source = _source(value, at_once=number < last)
        name = names.get(source)
        if name is None:
            name = _free_name(value.value, fields)
            fields[name] = source
            if _is_pure(value):
                names[source] = name
        if not _is_pure(value):
            names.clear()
        text.append(f"{{{name}}}")
    return "".join(text), fields


def text_without_slots(node: ast.JoinedStr) -> str | None:
    """The value of an f-string without slots; None if it has slots."""
    texts = [part.value for part in node.values if isinstance(part, ast.Constant)]
    return "".join(map(str, texts)) if len(texts) == len(node.values) else None


def _source(value: ast.FormattedValue, *, at_once: bool) -> str:
    """The source of a slot's value, formatted first if it has a conversion or a format."""
    if isinstance(value.value, ast.NamedExpr | ast.Yield | ast.YieldFrom):
        raise Refused("One slot assigns or yields a value: assign that value to a variable first.")
    formatted = value.conversion != -1 or value.format_spec is not None
    if not (at_once or formatted):
        return ast.unparse(value.value)
    try:
        source = ast.unparse(ast.JoinedStr([value]))
        ast.parse(source)
    except (ValueError, SyntaxError):
        raise Refused(
            "One slot cannot be quoted safely: assign its value to a variable first."
        ) from None
    return source


def _free_name(value: ast.expr, fields: dict[str, str]) -> str:
    """A name for a slot: that of the variable, attribute or function, numbered if taken."""
    while isinstance(value, ast.Call | ast.Await | ast.Subscript):
        value = value.func if isinstance(value, ast.Call) else value.value
    identifier = value.id if isinstance(value, ast.Name) else getattr(value, "attr", "")
    name = re.sub(r"^_+", "", identifier)
    if not name.isidentifier() or keyword.iskeyword(name) or name == "self":
        name = "value"
    free, number = name, 2
    while free in fields:
        free, number = f"{name}_{number}", number + 1
    return free


def _is_pure(value: ast.AST) -> bool:
    """Whether evaluating it has no side effects, so that several slots may share one evaluation."""
    parts = (*_PURE, ast.FormattedValue, ast.JoinedStr)
    return all(isinstance(node, parts) for node in ast.walk(value))
