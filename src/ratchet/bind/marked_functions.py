"""Functions marked by comments, which evolve without a decorator.

Other modules or tool lists may already hold a reference to such a function. It therefore stays the
same object, and its code object is replaced by one that calls the bound function.
"""

from __future__ import annotations

import gc
import inspect
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ratchet.bind.code import EvolvableFunction
from ratchet.bind.evolve_blocks import BLOCK_START, marked_functions
from ratchet.types import InputError

_RUNS = "__ratchet_evolves__"
"""Module global through which marked functions find the function to call."""

_BODIES = {
    "function": "def {name}(*args, **kwargs):\n return {call}",
    "coroutine": "async def {name}(*args, **kwargs):\n return await {call}",
    "generator": "def {name}(*args, **kwargs):\n return (yield from {call})",
    "async generator": "async def {name}(*args, **kwargs):\n async for item in {call}: yield item",
}


def bind_marked_functions(root: Path) -> list[str]:
    """Make the marked functions of all loaded modules below a folder evolvable.

    Call it again for modules loaded since.

    Args:
        root: The folder, with its absolute path.

    Returns:
        Names of the resources, including those of earlier calls.

    Raises:
        InputError: A marker has no partner, or two functions have the same name.
    """
    names: list[str] = []
    for module, text, file in _modules_with_markers(root):
        for marked in marked_functions(text, str(file)):
            function = _function(module, marked.qualname, file)
            if function is None:
                continue  # defined under a condition that is false here
            if hasattr(function, _RUNS):
                names.append(getattr(function, _RUNS))
            elif not _evolves_already(function, module):
                names.append(_adopt(module, function))
    return names


def _modules_with_markers(root: Path) -> Iterator[tuple[ModuleType, str, Path]]:
    below = os.path.join(root, "")
    for module in list(sys.modules.values()):
        name = getattr(module, "__file__", None)
        if not isinstance(name, str) or not name.startswith(below) or not name.endswith(".py"):
            continue
        file = Path(name)
        if "site-packages" in file.relative_to(root).parts:
            continue
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if BLOCK_START in text:
            yield module, text, file


def _function(module: ModuleType, qualname: str, file: Path) -> FunctionType | None:
    target: Any = module
    for part in qualname.split("."):
        target = inspect.getattr_static(target, part, None)
    while target is not None and not _is_of(target, qualname, file):
        # Below decorators, static and class methods, properties.
        target = (
            getattr(target, "__func__", None)
            or getattr(target, "__wrapped__", None)
            or getattr(target, "fget", None)
        )
    if isinstance(target, FunctionType):
        return target
    # A decorator without `__wrapped__`: slow, and rare.
    return next(
        (
            f
            for f in gc.get_objects()
            if _is_of(f, qualname, file) and f.__module__ == module.__name__
        ),
        None,
    )


def _is_of(target: Any, qualname: str, file: Path) -> bool:
    return (
        isinstance(target, FunctionType)
        and target.__code__.co_qualname == qualname  # wrappers copy the names of what they wrap
        and (hasattr(target, _RUNS) or target.__code__.co_filename == str(file))
    )


def _evolves_already(function: FunctionType, module: ModuleType) -> bool:
    """Whether the function is also decorated, and so is inside the decorator's wrapper."""
    target: Any = module
    for part in function.__qualname__.split("."):
        target = inspect.getattr_static(target, part, None)
    while target is not None and target is not function:
        code = getattr(target, "__code__", None)
        if code is not None and "bound_function" in code.co_freevars:
            return True
        target = getattr(target, "__func__", None) or getattr(target, "__wrapped__", None)
    return False


def _adopt(module: ModuleType, function: FunctionType) -> str:
    original = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    original.__kwdefaults__ = function.__kwdefaults__
    original.__annotations__ = function.__annotations__
    original.__qualname__ = function.__qualname__
    original.__doc__ = function.__doc__
    target = EvolvableFunction(function.__qualname__, original)
    target.declare()
    signature = inspect.signature(function)
    runs = vars(module).setdefault(_RUNS, {})
    runs[function.__qualname__] = lambda *args, **kwargs: target.bound_function()(*args, **kwargs)
    function.__code__ = _body(function)
    function.__defaults__ = function.__kwdefaults__ = None
    function.__signature__ = signature  # type: ignore[attr-defined]
    setattr(function, _RUNS, target.name)
    return target.name


def _body(function: FunctionType) -> CodeType:
    """Code that calls the bound function, with the same free variables as the original."""
    kind = "function"
    if inspect.iscoroutinefunction(function):
        kind = "coroutine"
    elif inspect.isgeneratorfunction(function):
        kind = "generator"
    elif inspect.isasyncgenfunction(function):
        kind = "async generator"
    call = f"{_RUNS}[{function.__qualname__!r}](*args, **kwargs)"
    text = _BODIES[kind].format(name=function.__name__, call=call)
    free = function.__code__.co_freevars
    if free:
        # A code object can only be replaced by one with as many free variables; naming them
        # suffices.
        head, _, body = text.partition("\n")
        text = f"{head}\n if 0: ({', '.join(free)},)\n{body}"
        inner = text.replace("\n", "\n ")
        text = f"def _({', '.join(free)}):\n {inner}"
    code = compile(text, f"<ratchet: calls {function.__qualname__}>", "exec", 0, True)
    while code.co_name != function.__name__:
        code = next(c for c in code.co_consts if isinstance(c, CodeType))
    if code.co_freevars != free:
        raise InputError(
            f"{function.__qualname__} is marked by comments, but cannot be replaced in this way.",
            hint="Mark it with @ratchet.evolve instead.",
        )
    return code.replace(
        co_qualname=function.__qualname__, co_firstlineno=function.__code__.co_firstlineno
    )
