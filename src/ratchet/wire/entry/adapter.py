"""The adapter: a file with one `@ratchet.agent` function, from a task's input to the output."""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Iterable, Sequence

import msgspec


class CannotCall(Exception):
    """An entry that no function can be written for; the message says why, and what would help."""


class AgentAdapter(msgspec.Struct, frozen=True):
    """What the file says."""

    name: str
    """Name of its function."""
    parameters: tuple[str, ...]
    """As they are declared, such as `question: str`."""
    returns: str
    """Annotation of the result; empty for `Any`."""
    assumes: str
    """Sentences for its docstring."""
    body: tuple[str, ...]
    """Its lines, without indentation."""
    imports: tuple[str, ...] = ()
    asynchronous: bool = False
    before: tuple[str, ...] = ()
    """Lines at the top of the module, after the imports."""
    used: tuple[str, ...] = ()
    """Files of the project that it imports."""
    runs: tuple[str, ...] = ()
    """Files of the project that it runs as programs."""
    early: tuple[str, ...] = ()
    """Statements between the imports of libraries and those of the project."""


def adapter_source(adapter: AgentAdapter, local: frozenset[str]) -> str:
    """The file's text.

    Args:
        adapter: What it says.
        local: Top names of the project's own modules.
    """
    shown = " ".join([*adapter.parameters, adapter.returns or "Any", *adapter.before])
    needs_any = re.search(r"\bAny\b", shown) is not None
    lines = dict.fromkeys(["import ratchet", *adapter.imports])
    if needs_any:
        lines["from typing import Any"] = None
    groups: list[list[str]] = [[], [], []]
    for line in _joined(lines):
        top = line.split()[1].partition(".")[0]
        where = 2 if top in local else 0 if top in sys.stdlib_module_names else 1
        late = "  # noqa: E402" if adapter.early and where == 2 else ""
        head, newline, rest = line.partition("\n")
        groups[where].append(f"{head}{late}{newline}{rest}")
    blocks = ["\n".join(group) for group in groups[:2] if group]
    if adapter.early:
        blocks.append("\n".join(adapter.early))
    if groups[2]:
        blocks.append("\n".join(groups[2]))
    if adapter.before:
        blocks.append("\n".join(adapter.before))
    kind = "async def" if adapter.asynchronous else "def"
    returns = f" -> {adapter.returns or 'Any'}"
    head = f"{kind} {adapter.name}({', '.join(adapter.parameters)}){returns}:"
    if len(head) > 99:
        given = "".join(f"    {one},\n" for one in adapter.parameters)
        head = f"{kind} {adapter.name}(\n{given}){returns}:"
    said = textwrap.wrap(adapter.assumes, 92)
    docstring = [f'"""{said[0]}', *said[1:]]
    closing = ['"""'] if len(docstring) > 1 else []
    if not closing:
        docstring[0] += '"""'
    body = textwrap.indent("\n".join([*docstring, *closing, *adapter.body]), "    ")
    text = (
        '"""Runs the agent for Ratchet: one task\'s input in, its output out."""\n\n'
        + "\n\n".join(blocks)
        + f"\n\n\n@ratchet.agent\n{head}\n{body}\n"
    )
    ast.parse(text)
    return text


def call_lines(head: str, given: Sequence[str], tail: str = ")") -> list[str]:
    """A call as lines: in one if it is short, else an argument in each."""
    line = f"{head}{', '.join(given)}{tail}"
    return [line] if len(line) < 92 else [head, *(f"    {one}," for one in given), tail]


def _joined(lines: Iterable[str]) -> list[str]:
    """Imports in order, those from one module in one statement."""
    names: dict[str, list[str]] = {}
    plain = []
    for line in lines:
        if line.startswith("from "):
            module, _, name = line.removeprefix("from ").partition(" import ")
            names.setdefault(module, []).append(name)
        else:
            plain.append(line)
    found = sorted(plain)
    for module in sorted(names, key=str.lower):
        given = sorted(names[module])
        line = f"from {module} import {', '.join(given)}"
        if len(line) > 86:
            inner = "".join(f"    {one},\n" for one in given)
            line = f"from {module} import (\n{inner})"
        found.append(line)
    return found
