"""A proposed evaluator, and its form in a project: a Python function and lines of ratchet.toml."""

from __future__ import annotations

import ast
import json
import re
import textwrap
from collections.abc import Sequence
from typing import Any

import msgspec

from ratchet.types import InputError

ARGUMENTS = ("output", "expected", "input", "metadata")
"""Parameters that a proposed function may declare: those with a JSON form."""


class ProposedEvaluator(msgspec.Struct, frozen=True, kw_only=True):
    """A proposed evaluator: a built-in one with options, or a function."""

    name: str
    why: str
    """What it checks and why it is proposed, in a sentence."""
    made_by: str
    """`schema`, `invariant`, `fields`, `answers`, `bounds`, or `llm MODEL`."""
    use: str = ""
    """Name of a built-in evaluator; empty for a function."""
    options: dict[str, Any] = {}
    """Options of the built-in evaluator."""
    source: str = ""
    """Text of the function, which has the evaluator's name; empty for a built-in one."""


def arguments_of(source: str, name: str) -> tuple[str, ...]:
    """Parameters of the function that a source text defines.

    Raises:
        InputError: It does not parse, has no function of that name, or the function asks for what
            it cannot have.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"The code of {name!r} does not parse: {error}.") from None
    defined = [
        node
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name
    ]
    if not defined:
        raise InputError(f"The code of {name!r} defines no function of that name.")
    signature = defined[-1].args
    if signature.vararg or signature.kwarg or signature.posonlyargs:
        raise InputError(f"The function {name!r} must name its parameters.")
    parameters = tuple(parameter.arg for parameter in (*signature.args, *signature.kwonlyargs))
    unknown = [parameter for parameter in parameters if parameter not in ARGUMENTS]
    if unknown or "output" not in parameters:
        wrong = f"asks for {unknown[0]!r}" if unknown else "has no parameter output"
        raise InputError(f"The function {name!r} {wrong}; it may have {', '.join(ARGUMENTS)}.")
    return parameters


def python_module(proposals: Sequence[ProposedEvaluator]) -> str:
    """The text of a module with the proposed functions as evaluators; empty without one."""
    functions = [proposal for proposal in proposals if proposal.source]
    if not functions:
        return ""
    imports: list[str] = []
    parts: dict[str, str] = {}
    for proposal in functions:
        tree = ast.parse(proposal.source)
        nodes = [node for node in tree.body if not _is_import(node)]
        imports += [ast.unparse(n) for n in tree.body if _is_import(n) and not _is_future(n)]
        texts = {_name_of(node): _text(proposal.source, node) for node in nodes}
        for name in [part for part in texts if parts.get(part, texts[part]) != texts[part]]:
            # Another function has a part of the same name: this one's is renamed.
            word = re.compile(rf"\b{re.escape(name)}\b")
            new = f"_{proposal.name}_{name.strip('_')}"
            texts = {word.sub(new, key): word.sub(new, text) for key, text in texts.items()}
        texts[proposal.name] = f"@ratchet.evaluator\n{texts[proposal.name]}"
        parts |= texts
    head = '"""Evaluators that Ratchet proposed; edit them as you like."""\n'
    lines = "\n".join([*sorted(set(imports)), "", "import ratchet"])
    return f"{head}\n{lines.strip()}\n\n\n" + "\n\n\n".join(parts.values()) + "\n"


def toml_tables(proposals: Sequence[ProposedEvaluator], module: str) -> str:
    """The `[[evaluators]]` tables of the proposals.

    Args:
        proposals: What was accepted.
        module: Name of the module with the functions.
    """
    tables = []
    for proposal in proposals:
        comment = textwrap.indent(textwrap.fill(proposal.why, 96), "# ")
        use = proposal.use or f"{module}:{proposal.name}"
        name_line = [f"name = {_toml(proposal.name)}"] if proposal.use else []
        options = [f"{key} = {_toml(value)}" for key, value in proposal.options.items()]
        tables.append(
            "\n".join([comment, "[[evaluators]]", f"use = {_toml(use)}", *name_line, *options])
        )
    return "\n\n".join(tables) + "\n" if tables else ""


def _name_of(node: ast.stmt) -> str:
    """The name that a statement defines, or its text."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return node.name
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return ast.unparse(node)


def _text(source: str, node: ast.stmt) -> str:
    # Decorators are not part of a definition's segment.
    first = getattr(node, "decorator_list", None)
    return ast.unparse(node) if first else ast.get_source_segment(source, node) or ast.unparse(node)


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, (ast.Import, ast.ImportFrom))


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _toml(value: Any) -> str:
    """A JSON value as TOML on one line; objects as inline tables.

    Raises:
        InputError: It holds null, which TOML has not.
    """
    if value is None:
        raise InputError("TOML has no null.")
    if isinstance(value, dict):
        inner = ", ".join(f"{_key(key)} = {_toml(field)}" for key, field in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    # TOML has no surrogate pairs, and no bare DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(key: str) -> str:
    plain = key.isascii() and key.replace("_", "").replace("-", "").isalnum()
    return key if plain else json.dumps(key)
