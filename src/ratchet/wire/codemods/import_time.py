"""Which functions of a file run while it is imported, so that what they read stays as it was."""

from __future__ import annotations

import ast
import re

from ratchet.wire.codemods.python_file import Function, PythonFile, dotted, own_nodes

_ONCE = re.compile(
    r"(?:__init__|__post_init__|__new__|_?(?:create|make|build|get|setup|set_up|init|new)_.*)"
)
"""Names of functions that construct something which is kept."""
_CACHES = frozenset({"cache", "lru_cache", "cached_property"})


def is_kept(file: PythonFile, scope: ast.AST) -> bool:
    """Whether what a function reads may outlive its call.

    True for one that is cached, that the module calls when it is imported, also through other
    functions of the file, or whose name says that it constructs something.
    """
    if not isinstance(scope, Function):
        return False
    if _ONCE.fullmatch(scope.name):
        return True
    if any(dotted(one).rpartition(".")[2] in _CACHES for one in scope.decorator_list):
        return True
    return scope.name in _called_at_import(file)


def _called_at_import(file: PythonFile) -> set[str]:
    """Last names of all that runs at import; a class stands for its methods."""
    found: set[str] = set()
    names = _called(file.tree)
    for one in file.tree.body:
        if isinstance(one, ast.ClassDef):
            names |= _called(one)
    while names - found:
        name = (names - found).pop()
        found.add(name)
        for path, scope in file.scopes.items():
            if path.rpartition(".")[2] != name:
                continue
            names |= _called(scope)
            if isinstance(scope, ast.ClassDef):
                names |= {each.name for each in scope.body if isinstance(each, Function)}
    return found


def _called(scope: ast.AST) -> set[str]:
    calls = [node for node in own_nodes(scope) if isinstance(node, ast.Call)]
    return {dotted(node.func).rpartition(".")[2] for node in calls if not _is_main(scope, node)}


def _is_main(scope: ast.AST, call: ast.Call) -> bool:
    """Whether a call stands under `if __name__ == …`, which an import does not run."""
    return any(
        isinstance(one, ast.If)
        and any(isinstance(each, ast.Name) and each.id == "__name__" for each in ast.walk(one.test))
        and one.lineno <= call.lineno <= (one.end_lineno or one.lineno)
        for one in getattr(scope, "body", [])
    )
