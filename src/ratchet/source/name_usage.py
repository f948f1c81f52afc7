"""Names that a top-level statement binds, changes and uses."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator


def bound_by(statement: ast.stmt) -> Iterator[str]:
    """Names that a statement binds in its module; `*` for a star import."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield statement.name
        return
    for node in _without_scopes(statement):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Import():
                for alias in node.names:
                    yield alias.asname or alias.name.partition(".")[0]
            case ast.ImportFrom():
                for alias in node.names:
                    yield alias.asname or alias.name
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                yield name


def _without_scopes(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield child
        elif not isinstance(child, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp)):
            yield from _without_scopes(child)


def changed_by(statement: ast.stmt) -> Iterator[str]:
    """Names whose objects a statement changes: `NAME.append(…)`, `NAME[…] = …`, `NAME.x = …`."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        called = statement.value.func
        if isinstance(called, ast.Attribute) and (root := _root(called.value)):
            yield root
        return
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, (ast.AugAssign, ast.AnnAssign)):
        targets = [statement.target]
    elif isinstance(statement, ast.Delete):
        targets = statement.targets
    elif isinstance(statement, (ast.For, ast.If, ast.With, ast.Try)):
        for field in ("body", "orelse", "finalbody"):
            for inner in getattr(statement, field, []):
                yield from changed_by(inner)
        return
    for target in targets:
        if isinstance(target, (ast.Attribute, ast.Subscript)) and (root := _root(target)):
            yield root


def _root(node: ast.expr) -> str:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def used_by(statement: ast.stmt) -> set[str]:
    """Global names that a statement uses, at any depth."""
    source = ast.unparse(ast.Module([statement], []))
    try:
        table = symtable.symtable(source, "<statement>", "exec")
    except (SyntaxError, RecursionError):
        return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}
    used: set[str] = set()
    _collect(table, used, top=True)
    used |= set(_in_quotes(statement))
    return used


def _collect(table: symtable.SymbolTable, used: set[str], *, top: bool) -> None:
    for symbol in table.get_symbols():
        outer = symbol.is_global() and (symbol.is_referenced() or symbol.is_assigned())
        if outer or (top and symbol.is_referenced()):
            used.add(symbol.get_name())
    for child in table.get_children():
        _collect(child, used, top=False)


def _in_quotes(statement: ast.stmt) -> Iterator[str]:
    """Names in annotations written as strings."""
    for node in ast.walk(statement):
        annotations: list[ast.expr | None] = []
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            annotations.append(node.returns)
        elif isinstance(node, (ast.arg, ast.AnnAssign)):
            annotations.append(node.annotation)
        for annotation in annotations:
            for inner in ast.walk(annotation) if annotation is not None else ():
                if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                    try:
                        parsed = ast.parse(inner.value, mode="eval")
                    except (SyntaxError, ValueError):
                        continue
                    yield from (n.id for n in ast.walk(parsed) if isinstance(n, ast.Name))


def chains(tree: ast.AST, name: str) -> Iterator[tuple[str, ...]]:
    """Attribute chains of a name, such as ("b", "c") for `a.b.c`; () for `a` itself."""
    if isinstance(tree, ast.Attribute):
        parts: list[str] = []
        node: ast.expr = tree
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            if node.id == name:
                yield tuple(reversed(parts))
            return
        yield from chains(node, name)
        return
    if isinstance(tree, ast.Name):
        if tree.id == name and isinstance(tree.ctx, ast.Load):
            yield ()
        return
    for child in ast.iter_child_nodes(tree):
        yield from chains(child, name)
