"""Finds the functions of a repository that may evolve, by decorator or comment."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ratchet.bind.evolve_blocks import BLOCK_START, marked_functions
from ratchet.source.connections import origin_of, origins_of
from ratchet.source.tree import Module, SourceTree
from ratchet.types import InputError


class FoundTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A function in a repository's source."""

    name: str
    """Name of the resource."""
    module: str
    qualname: str
    file: Path
    line: int

    @property
    def top(self) -> str:
        """Its top-level name: its own, or that of its class."""
        return self.qualname.partition(".")[0]


def targets_in(tree: SourceTree) -> list[FoundTarget]:
    """Find the functions marked by `@ratchet.evolve` or comments, by file.

    Raises:
        InputError: A comment marker has no partner.
    """
    targets: list[FoundTarget] = []
    for file in tree.files:
        module = tree.read(file)
        if module is None:
            continue
        mine = list(_decorated(module)) if "evolve" in module.text else []
        if BLOCK_START in module.text:
            qualnames = {target.qualname for target in mine}
            where = file.relative_to(tree.root).as_posix()
            mine += (
                _target(module, marked.qualname, marked.qualname, marked.line)
                for marked in marked_functions(module.text, where)
                if marked.qualname not in qualnames
            )
        targets += mine
    return targets


def target_named(tree: SourceTree, name: str) -> FoundTarget:
    """Find a target by its resource's name, or any function as MODULE:FUNCTION or FILE:FUNCTION.

    Raises:
        InputError: None matches, or several do.
    """
    if ":" in name:
        return _function_named(tree, name)
    targets = targets_in(tree)
    matches = [target for target in targets if target.name == name]
    if len(matches) == 1:
        return matches[0]
    if matches:
        places = ", ".join(f"{t.module}:{t.qualname}" for t in matches)
        raise InputError(
            f"Several functions are named {name!r}: {places}.", hint="Name one of these."
        )
    near = difflib.get_close_matches(name, [t.name for t in targets], n=1)
    names = ", ".join(sorted(t.name for t in targets)[:20]) or "none"
    meant = f" Did you mean {near[0]!r}?" if near else f" Targets here: {names}."
    raise InputError(
        f"No function in {tree.root} that may evolve is named {name!r}.{meant}",
        hint="Name any other function as MODULE:FUNCTION.",
    )


def _function_named(tree: SourceTree, name: str) -> FoundTarget:
    where, _, qualname = name.replace("::", ":").rpartition(":")
    file = tree.root / where if where.endswith(".py") else tree.find(where)
    if file is None or not file.is_file():
        raise InputError(f"There is no module {where!r} in {tree.root}.")
    module = tree.read(file.resolve())
    if module is None:
        raise InputError(f"{file} has a syntax error.")
    for function_name, node in _functions(module.tree, ""):
        if function_name == qualname:
            return _target(module, qualname.rpartition(".")[2], qualname, node.lineno)
    names = [function_name for function_name, _ in _functions(module.tree, "")]
    near = difflib.get_close_matches(qualname, names, n=1)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    raise InputError(f"{where} has no function {qualname!r}.{meant}")


def _target(module: Module, name: str, qualname: str, line: int) -> FoundTarget:
    return FoundTarget(
        name=name, module=module.name, qualname=qualname, file=module.file, line=line
    )


def _decorated(module: Module) -> Iterator[FoundTarget]:
    origins = origins_of(module)
    for qualname, node in _functions(module.tree, ""):
        for decorator in node.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            origin = origin_of(called, origins)
            if origin.startswith("ratchet.") and origin.endswith(".evolve"):
                name = _given_name(decorator) or node.name
                yield _target(module, name, qualname, node.lineno)


def _given_name(decorator: ast.expr) -> str:
    if not isinstance(decorator, ast.Call):
        return ""
    name_arguments = [
        *decorator.args[:1],
        *(k.value for k in decorator.keywords if k.arg == "name"),
    ]
    for value in name_arguments:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return value.value
    return ""


def _functions(
    node: ast.AST, prefix: str
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield prefix + child.name, child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        else:
            yield from _functions(child, prefix)
