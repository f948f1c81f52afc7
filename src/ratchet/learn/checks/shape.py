"""The shape check: code must retain the function's signature, kind and fixed lines."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from typing import TypeAlias

from ratchet.bind.evolve_blocks import outside
from ratchet.learn.checks.check import CandidateChange
from ratchet.types import Code, InputError
from ratchet.types.wording import counted

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

MAX_CODE_GROWTH = 8.0
"""Maximum length of a candidate's code, as a multiple of the baseline's."""

ALWAYS_ALLOWED_CODE = 8_000
"""Number of characters that code may always have."""


async def keeps_shape(change: CandidateChange) -> str:
    """Check that code retains its signature, kind and fixed lines.

    The signature is the names, kinds, order, defaults and annotations of the parameters; the kind,
    whether it is async or a generator; fixed lines are those outside its evolve blocks.
    """
    for name, (old, new) in change.resources.items():
        if isinstance(old, Code) and isinstance(new, Code):
            fault = shape_fault(old, new)
            if fault:
                return f"The code of {name!r} {fault}"
    return ""


def shape_fault(old: Code, new: Code) -> str:
    """How a candidate's function differs from the source's, as a predicate; empty if equal."""
    if new.function != old.function:
        return f"defines {new.function!r} instead of {old.function!r}."
    limit = max(ALWAYS_ALLOWED_CODE, int(MAX_CODE_GROWTH * len(old.source)))
    if len(new.source) > limit:
        return f"has {counted(len(new.source), 'character')}; at most {limit} are allowed."
    before, after = function_of(old), function_of(new)
    if (fault := _fixed_fault(old, new)) or (fault := _kind_fault(before, after)):
        return fault
    return _signature_fault(before, after)


def function_of(code: Code) -> FunctionNode:
    """The syntax tree of a function's source."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        node = ast.parse(code.source).body[0]
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    return node


def _fixed_fault(old: Code, new: Code) -> str:
    fixed = outside(old.source)
    if fixed is None:
        return ""
    try:
        same = outside(new.source) == fixed
    except InputError as error:
        return f"breaks its block: {error.message}"
    if same:
        return ""
    return (
        "changes lines outside its # EVOLVE-BLOCK-START … # EVOLVE-BLOCK-END. Keep these lines,"
        " and the markers, as they are."
    )


def _kind_fault(old: FunctionNode, new: FunctionNode) -> str:
    if isinstance(old, ast.AsyncFunctionDef) != isinstance(new, ast.AsyncFunctionDef):
        return "must begin with `async def`." if _is_async(old) else "must not be async."
    if is_generator(old) != is_generator(new):
        return "must yield, as the source does." if is_generator(old) else "must not yield."
    return ""


def _is_async(node: FunctionNode) -> bool:
    return isinstance(node, ast.AsyncFunctionDef)


def is_generator(node: FunctionNode) -> bool:
    """Whether a function itself yields; nested functions do not count."""
    return any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in _own(node))


def _own(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            yield from _own(child)


def _signature_fault(old: FunctionNode, new: FunctionNode) -> str:
    before, after = _parameters(old), _parameters(new)
    remedy = f"Keep `def {old.name}({ast.unparse(old.args)})"
    remedy += f" -> {ast.unparse(old.returns)}`." if old.returns else "`."
    names = [name for name, *_ in before]
    if [name for name, *_ in after] != names:
        listed = ", ".join(name for name, *_ in after) or "none"
        return f"changes its parameters to {listed}. {remedy}"
    for old_arg, new_arg in zip(before, after, strict=True):
        name = old_arg[0]
        if old_arg[1] != new_arg[1]:
            return f"makes the parameter {name!r} {new_arg[1]} where it is {old_arg[1]}. {remedy}"
        if old_arg[2] != new_arg[2]:
            how = "takes the default away from" if old_arg[2] else "gives a default to"
            return f"{how} the parameter {name!r}. {remedy}"
        if old_arg[3] != new_arg[3]:
            return f"changes the annotation of {name!r}. {remedy}"
    if _dump(old.returns) != _dump(new.returns):
        return f"changes the return annotation. {remedy}"
    return ""


def _parameters(node: FunctionNode) -> list[tuple[str, str, bool, str]]:
    """(name, kind, has a default, annotation) of each parameter."""
    args = node.args
    positional = [*args.posonlyargs, *args.args]
    first_default = len(positional) - len(args.defaults)
    parameters = [
        (
            argument.arg,
            "positional only" if number < len(args.posonlyargs) else "positional",
            number >= first_default,
            _dump(argument.annotation),
        )
        for number, argument in enumerate(positional)
    ]
    if args.vararg:
        parameters.append((args.vararg.arg, "variable", True, _dump(args.vararg.annotation)))
    for argument, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        parameters.append(
            (argument.arg, "keyword only", default is not None, _dump(argument.annotation))
        )
    if args.kwarg:
        parameters.append((args.kwarg.arg, "variable keyword", True, _dump(args.kwarg.annotation)))
    return parameters


def _dump(node: ast.expr | None) -> str:
    if node is None:
        return ""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.replace(" ", "")  # quoted annotations are equivalent
    return ast.unparse(node).replace(" ", "")
