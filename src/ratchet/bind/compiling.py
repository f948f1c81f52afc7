"""Compiles a candidate's source into a function that replaces the original.

It sees what the original sees: the module's globals, the variables of enclosing functions, the
class (`super()` and names with two underscores). Defaults written as in the original keep the
original's objects, so that a sentinel stays the same object.
"""

from __future__ import annotations

import ast
import builtins
import functools
import linecache
import sys
import typing
import warnings
from collections.abc import Callable
from types import CellType, CodeType, FunctionType
from typing import Any

from ratchet.bind.return_types import fits
from ratchet.types import Code

_FUTURE_ANNOTATIONS = 0x1000000
"""Flag of `from __future__ import annotations`: names in annotations need not exist at run time."""


def compile_candidate(code: Code, original: FunctionType, own: Code | None) -> FunctionType:
    """Compile a candidate's source.

    Args:
        code: The candidate's source.
        original: The function of the user's source.
        own: The source of the original; None if it cannot be read.
    """
    filename = f"<candidate {code.function}>"
    node = _function(code.source)
    class_name = _class_name(original.__qualname__)
    compiled = _compiled(node, original.__code__.co_freevars, class_name, filename)
    function = FunctionType(
        compiled,
        original.__globals__,
        original.__name__,
        None,
        tuple(_cell(name, original) for name in compiled.co_freevars),
    )
    defaults = _source_defaults(original, _function(own.source) if own else None)
    _set_defaults(function, node, defaults, original)
    function.__qualname__ = original.__qualname__
    function.__module__ = original.__module__
    function.__annotations__ = dict(original.__annotations__)
    # Makes the text available to tracebacks and `inspect`.
    lines = code.source.splitlines(keepends=True)
    linecache.cache[filename] = (len(code.source), None, lines, filename)
    return function


def _function(source: str) -> ast.FunctionDef | ast.AsyncFunctionDef:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        node = ast.parse(source).body[0]
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    return node


def _class_name(qualname: str) -> str | None:
    before = qualname.rpartition(".")[0].rpartition(".")[2]
    return before if before and before != "<locals>" else None


def _compiled(
    node: ast.FunctionDef | ast.AsyncFunctionDef,
    variables: tuple[str, ...],
    class_name: str | None,
    filename: str,
) -> CodeType:
    """Compile the function in the scope of the original."""
    inner: ast.stmt = node
    if class_name is not None:
        inner = _shaped("class _: pass")
        assert isinstance(inner, ast.ClassDef)
        inner.name, inner.body = class_name, [node]
    outer = _shaped("def _(): pass")
    assert isinstance(outer, ast.FunctionDef)
    # Parameters of the outer function stand for the variables of the enclosing functions.
    outer.args.args = [ast.arg(name) for name in variables if name != "__class__"]
    bound = class_name or node.name
    # Its own name keeps its meaning in the original: a global, or an enclosing variable.
    outer.body = [inner] if bound in variables else [ast.Global([bound]), inner]
    tree = ast.fix_missing_locations(ast.Module([outer], []))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module_code = compile(tree, filename, "exec", _FUTURE_ANNOTATIONS, True)
    code = _inside(module_code, "_")
    if class_name is not None:
        code = _inside(code, class_name)
    return _inside(code, node.name)


def _shaped(text: str) -> ast.stmt:
    return ast.parse(text).body[0]


def _inside(code: CodeType, name: str) -> CodeType:
    nested = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    for inner in nested:
        if inner.co_name == name:
            return inner
    for inner in nested:  # with type parameters, one scope further in
        try:
            return _inside(inner, name)
        except LookupError:
            continue
    raise LookupError(name)


def _cell(name: str, original: FunctionType) -> CellType:
    cells = dict(zip(original.__code__.co_freevars, original.__closure__ or (), strict=True))
    if name in cells:
        return cells[name]
    if name == "__class__":  # the candidate uses super() and the original does not
        owner: Any = sys.modules.get(original.__module__)
        for part in original.__qualname__.split(".")[:-1]:
            owner = getattr(owner, part, None)
        if isinstance(owner, type):
            return CellType(owner)
    return CellType()


def _source_defaults(
    original: FunctionType, node: ast.FunctionDef | ast.AsyncFunctionDef | None
) -> dict[str, tuple[str, Any]]:
    """For each parameter, how the source writes its default, and the default object."""
    if node is None:
        return {}
    values: dict[str, Any] = dict(original.__kwdefaults__ or {})
    positional = [*node.args.posonlyargs, *node.args.args]
    defaults = original.__defaults__ or ()
    if defaults:
        values |= zip((a.arg for a in positional[-len(defaults) :]), defaults, strict=False)
    return {
        name: (ast.dump(default), values[name])
        for name, default in _written_defaults(node).items()
        if name in values
    }


def _written_defaults(node: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, ast.expr]:
    positional = [*node.args.posonlyargs, *node.args.args]
    count = len(node.args.defaults)
    defaults_by_name = {
        argument.arg: default
        for argument, default in zip(
            positional[len(positional) - count :], node.args.defaults, strict=True
        )
    }
    for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        if default is not None:
            defaults_by_name[argument.arg] = default
    return defaults_by_name


def _set_defaults(
    function: FunctionType,
    node: ast.FunctionDef | ast.AsyncFunctionDef,
    defaults: dict[str, tuple[str, Any]],
    original: FunctionType,
) -> None:
    values: dict[str, Any] = {}
    for name, default in _written_defaults(node).items():
        before = defaults.get(name)
        if before is not None and before[0] == ast.dump(default):
            values[name] = before[1]
        else:
            values[name] = _evaluated(default, original)
    keywords = {argument.arg for argument in node.args.kwonlyargs}
    function.__defaults__ = tuple(v for name, v in values.items() if name not in keywords) or None
    function.__kwdefaults__ = {n: v for n, v in values.items() if n in keywords}


def _evaluated(default: ast.expr, original: FunctionType) -> Any:
    expression = ast.fix_missing_locations(ast.Expression(default))
    code = compile(expression, "<default>", "eval", 0, True)
    names: dict[str, Any] = {}
    for name, cell in zip(original.__code__.co_freevars, original.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return builtins.eval(code, original.__globals__, names)  # noqa: S307 - only inside a sandbox


_UNKNOWN: Any = object()


class WrongReturn(TypeError):
    """A candidate's function returned a value that the source's annotation does not allow."""


def check_return(function: Callable[..., Any], value: Any) -> None:
    """Compare a value with the return annotation of the source's own function.

    Only the first item of a collection is checked. Annotations that cannot be resolved, or are
    unsupported, are skipped: this finds mistakes and proves nothing.

    Raises:
        WrongReturn: The value does not fit.
    """
    hint = expected_return(function)
    if hint is _UNKNOWN or fits(value, hint):
        return
    name = getattr(function, "__name__", "the function")
    hint_name = getattr(hint, "__name__", None) if isinstance(hint, type) else None
    raise WrongReturn(
        f"{name} returned {type(value).__name__} where its source declares {hint_name or hint}."
    )


@functools.lru_cache(maxsize=256)
def expected_return(function: Callable[..., Any]) -> Any:
    """Return type that a function's source declares; a sentinel if it declares none."""
    try:
        hints = typing.get_type_hints(function)
    except Exception:  # a name that exists only for type checkers
        return _UNKNOWN
    hint = hints.get("return", _UNKNOWN)
    return _UNKNOWN if hint is Any else hint
