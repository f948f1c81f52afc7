"""`ratchet.evolve`: marks a function whose source may evolve."""

from __future__ import annotations

import ast
import functools
import inspect
import io
import warnings
from collections.abc import AsyncGenerator, Callable, Generator
from tokenize import TokenError
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast, overload

from ratchet.bind import context, registry
from ratchet.bind.function_text import dedented
from ratchet.types import Code, Declaration, InputError, RatchetError


def same_behaviour(first: Code, second: Code) -> bool:
    """Whether two sources behave the same: they differ at most in comments, layout and
    docstring.

    A changed tool description is such a docstring change, and needs no sandbox.
    """
    return first.source == second.source or _behaviour(first.source) == _behaviour(second.source)


def docstring_of(code: Code) -> str:
    """Docstring of the function in a source, cleaned; empty if it has none."""
    return _docstring(code.source)


@functools.lru_cache(maxsize=1024)
def _behaviour(source: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as invalid escapes in the user's own strings
        node = ast.parse(source).body[0]
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    if ast.get_docstring(node, clean=False) is not None:
        # A body of only a docstring is equivalent to `pass`.
        node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(node)


@functools.lru_cache(maxsize=1024)
def _docstring(source: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        node = ast.parse(source).body[0]
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    return ast.get_docstring(node) or ""


P = ParamSpec("P")
R = TypeVar("R")


class CodeRefused(RatchetError):
    """A candidate's code differs from the source, but this process is not a sandbox."""


@overload
def evolve(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def evolve(
    function: str | None = None, /, *, name: str | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def evolve(function: Any = None, /, *, name: str | None = None) -> Any:
    """Mark a function whose source may evolve; also a method, a coroutine or a generator.

    Calls run the source's own function, or inside a rollout the candidate's. Code that behaves
    differently from the source runs only in a sandboxed worker: in other rollouts the call raises
    CodeRefused, and outside rollouts it warns and runs the source's function. A candidate that
    changes only the docstring runs everywhere; `ratchet.tool_schema` shows the docstring to a
    model.

    Args:
        function: The function, or the resource's name.
        name: The resource's name; the function's own by default.

    Raises:
        InputError: It is not a function, or the name is taken.
    """
    if isinstance(function, str):
        function, name = None, function
    if function is None:
        return lambda f: evolve(f, name=name)
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(evolve(name=name)(function.__func__))
    if not inspect.isfunction(function):
        raise InputError(
            f"@ratchet.evolve marks functions, not {function!r}.",
            hint="Put it directly above the def.",
        )
    if hasattr(function, "__wrapped__"):
        raise InputError(
            f"@ratchet.evolve must be the innermost decorator, but {function.__qualname__} is "
            "already decorated: a candidate would lose the decorators below it.",
            hint="Put it directly above the def, below the other decorators.",
        )
    target = EvolvableFunction(name or function.__name__, function)
    target.declare()
    return target.wrapper()


class EvolvableFunction:
    """A function of the source, registered as a resource.

    Args:
        name: The resource's name.
        function: The source's own function.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name = name
        self.function = function

    def declare(self) -> None:
        """Register the function.

        Raises:
            InputError: The name is taken.
        """
        function = self.function
        file = function.__code__.co_filename
        registry.declare(
            self.name,
            registry.DeclarationSite(file, f"function {function.__qualname__}"),
            lambda: Declaration(
                self.name,
                _source_or_none(function) or source_of(function),
                file,
                function.__code__.co_firstlineno,
                function.__qualname__,
            ),
        )

    def wrapper(self) -> Callable[..., Any]:
        """Return a function of the same kind that calls the bound function."""
        bound_function = self.bound_function
        function = self.function
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def run_async(*args: Any, **kwargs: Any) -> Any:
                return await bound_function()(*args, **kwargs)

            return run_async
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def run_generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
                return (yield from bound_function()(*args, **kwargs))

            return run_generator
        if inspect.isasyncgenfunction(function):

            @functools.wraps(function)
            async def run_async_generator(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
                inner = bound_function()(*args, **kwargs)
                try:
                    item = await anext(inner)
                    while True:
                        try:
                            sent = yield item
                        except GeneratorExit:
                            raise
                        except BaseException as error:
                            item = await inner.athrow(error)
                        else:
                            item = await inner.asend(sent)
                except StopAsyncIteration:
                    return
                finally:
                    await inner.aclose()

            return run_async_generator

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            return bound_function()(*args, **kwargs)

        return run

    def bound_function(self) -> Callable[..., Any]:
        """Return the function bound in the current context.

        Raises:
            CodeRefused: It is a candidate's, and this process is not a sandbox.
        """
        resource = context.resolve(self.name)
        if not isinstance(resource, Code) or self.is_own(resource):
            return self.function
        binding = context.current()
        if binding is None:
            # A release takes effect when its code is merged; it never breaks the agent.
            warnings.warn(
                f"The released code of {self.name!r} differs from the source; the source's"
                " function runs instead.",
                RuntimeWarning,
                stacklevel=3,
            )
            return self.function
        if not binding.sandboxed:
            raise CodeRefused(
                f"The candidate's code for {self.name!r} differs from the source, but this "
                "process is not a sandbox.",
                hint="Evaluate candidates with code in a sandboxed worker.",
            )
        return _candidate(resource, self.function, binding.check_returns)

    def is_own(self, resource: Code) -> bool:
        """Whether a resource behaves like the source's function."""
        own = _source_or_none(self.function)
        return own is not None and same_behaviour(resource, own)


def source_of(function: Callable[..., Any]) -> Code:
    """Source of a function, dedented and without its decorators.

    Raises:
        InputError: There is no source (for example of a function made by exec or in an
            interpreter).
    """
    name = getattr(function, "__name__", "function")
    try:
        text = dedented(inspect.getsource(function))
        tree = ast.parse(text)
    except (OSError, SyntaxError, TypeError, TokenError) as error:
        raise InputError(f"The source of {name!r} cannot be read: {error}.") from None
    definition = tree.body[0]
    lines = io.StringIO(text).readlines()  # split as Python does: form feeds end no line
    return Code("".join(lines[definition.lineno - 1 : definition.end_lineno]), name)


@functools.lru_cache(maxsize=256)
def _source_or_none(function: Callable[..., Any]) -> Code | None:
    try:
        return source_of(function)
    except InputError:
        return None


@functools.lru_cache(maxsize=256)
def _candidate(code: Code, original: Callable[..., Any], check: bool) -> Callable[..., Any]:
    # Imported here because only sandboxed workers need it, which keeps `import ratchet` small.
    from ratchet.bind.compiling import check_return, compile_candidate

    compiled = compile_candidate(code, cast("FunctionType", original), _source_or_none(original))
    generates = inspect.isgeneratorfunction(compiled) or inspect.isasyncgenfunction(compiled)
    if not check or generates:
        return compiled
    if inspect.iscoroutinefunction(compiled):

        async def checked_async(*args: Any, **kwargs: Any) -> Any:
            value = await compiled(*args, **kwargs)
            check_return(original, value)
            return value

        return checked_async

    def checked(*args: Any, **kwargs: Any) -> Any:
        value = compiled(*args, **kwargs)
        check_return(original, value)
        return value

    return checked
