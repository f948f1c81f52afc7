"""Finds the functions of a file that run at import: what they read is fixed from then on."""

from __future__ import annotations

import ast
import re

from ratchet.wire.codemods.python_file import Function, PythonFile, dotted, own_nodes

_ONCE = re.compile(
    r"(?:__init__|__post_init__|__new__|_?(?:create|make|build|get|setup|set_up|init|new)_.*)"
)
"""Names of functions that construct an object that outlives the call."""
_CACHES = frozenset({"cache", "lru_cache", "cached_property"})


def is_kept(file: PythonFile, scope: ast.AST) -> bool:
    """Whether a value that a function reads may outlive the call.

    True for one that is cached, that the module calls when it is imported, also through other
    functions of the file, or whose name says that it constructs something.
    """
    if not isinstance(scope, Function):
        return False
    if _ONCE.fullmatch(scope.name):
        return True
    if any(dotted(decorator).rpartition(".")[2] in _CACHES for decorator in scope.decorator_list):
        return True
    return scope.name in _called_at_import(file)


def _called_at_import(file: PythonFile) -> set[str]:
    """Last names of everything that runs at import; a class stands for its methods."""
    visited: set[str] = set()
    names = _called(file.tree)
    for statement in file.tree.body:
        if isinstance(statement, ast.ClassDef):
            names |= _called(statement)
    while names - visited:
        name = (names - visited).pop()
        visited.add(name)
        for path, scope in file.scopes.items():
            if path.rpartition(".")[2] != name:
                continue
            names |= _called(scope)
            if isinstance(scope, ast.ClassDef):
                names |= {method.name for method in scope.body if isinstance(method, Function)}
    return visited


def _called(scope: ast.AST) -> set[str]:
    calls = [node for node in own_nodes(scope) if isinstance(node, ast.Call)]
    return {dotted(node.func).rpartition(".")[2] for node in calls if not _is_main(scope, node)}


def _is_main(scope: ast.AST, call: ast.Call) -> bool:
    """Whether a call is under `if __name__ == …`, which an import does not run."""
    return any(
        isinstance(statement, ast.If)
        and any(
            isinstance(node, ast.Name) and node.id == "__name__"
            for node in ast.walk(statement.test)
        )
        and statement.lineno <= call.lineno <= (statement.end_lineno or statement.lineno)
        for statement in getattr(scope, "body", [])
    )
