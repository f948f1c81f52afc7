"""Names in a function: which an expression reads, and which a statement always sets."""

from __future__ import annotations

import ast


def free_names(node: ast.AST) -> set[str]:
    """Names that an expression reads from its environment, except the functions that it calls."""
    inner = {
        n
        for part in ast.walk(node)
        if isinstance(part, ast.comprehension)
        for n in stored(part.target)
    }
    inner |= {
        arg.arg
        for part in ast.walk(node)
        if isinstance(part, ast.Lambda)
        for arg in arguments_of(part.args)
    }
    called = {id(part.func) for part in ast.walk(node) if isinstance(part, ast.Call)}
    return {
        part.id
        for part in ast.walk(node)
        if isinstance(part, ast.Name) and part.id not in inner and id(part) not in called
    }


def arguments_of(arguments: ast.arguments) -> list[ast.arg]:
    """All parameters, of every kind."""
    return [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        *filter(None, (arguments.vararg, arguments.kwarg)),
    ]


def stored(node: ast.AST) -> set[str]:
    """Names set anywhere in a node."""
    return {
        part.id
        for part in ast.walk(node)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }


def certainly_set(statement: ast.stmt) -> set[str]:
    """Names that a statement sets whenever it completes."""
    match statement:
        case ast.Assign():
            return {name for target in statement.targets for name in stored(target)}
        case ast.AugAssign() | ast.AnnAssign():
            return stored(statement.target) if getattr(statement, "value", None) else set()
        case ast.If():
            both = [
                {name for inner in block for name in certainly_set(inner)}
                for block in (statement.body, statement.orelse)
            ]
            return both[0] & both[1]
        case ast.With() | ast.AsyncWith():
            return {name for inner in statement.body for name in certainly_set(inner)}
    return set()
