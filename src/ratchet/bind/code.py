"""`ratchet.evolve`: a function whose source may improve."""

from __future__ import annotations

import ast
import functools
import inspect
import io
import textwrap
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast, overload

from ratchet.bind import context, registry
from ratchet.types import Code, Declaration, InputError, RatchetError

P = ParamSpec("P")
R = TypeVar("R")


class CodeRefused(RatchetError):
    """A candidate's code differs from the source, and this process is not a sandbox."""


@overload
def evolve(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def evolve(
    function: str | None = None, /, *, name: str | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def evolve(function: Any = None, /, *, name: str | None = None) -> Any:
    """Mark a function whose source may improve.

    Calling it runs the source's own function, and inside a rollout the candidate's. Code that
    differs from the source runs only in a sandboxed worker; in other rollouts the call raises
    CodeRefused, and outside of rollouts it warns and runs the source's.

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
    if not inspect.isfunction(function):
        raise InputError(
            f"@ratchet.evolve marks functions, not {function!r}.",
            hint="Put it directly above the def.",
        )
    resource_name = name or function.__name__
    file = function.__code__.co_filename
    registry.declare(
        resource_name,
        registry.Place(file, f"function {function.__qualname__}"),
        lambda: Declaration(
            resource_name,
            source_of(function),
            file,
            function.__code__.co_firstlineno,
            function.__qualname__,
        ),
    )

    def chosen() -> Callable[..., Any]:
        resource = context.resolve(resource_name)
        if not isinstance(resource, Code) or resource == _source_or_none(function):
            return cast("Callable[..., Any]", function)
        binding = context.current()
        if binding is None:
            # A release is in force where its code has been merged; it never breaks the agent.
            warnings.warn(
                f"The released code of {resource_name!r} is not that of the source; the source's"
                " own runs.",
                RuntimeWarning,
                stacklevel=3,
            )
            return cast("Callable[..., Any]", function)
        if not binding.sandboxed:
            raise CodeRefused(
                f"The candidate's code for {resource_name!r} differs from the source, and this"
                " process is not a sandbox.",
                hint="Evaluate code candidates in a sandboxed worker.",
            )
        return _compiled(resource, function)

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def run_async(*args: Any, **kwargs: Any) -> Any:
            return await chosen()(*args, **kwargs)

        return run_async

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        return chosen()(*args, **kwargs)

    return run


def source_of(function: Callable[..., Any]) -> Code:
    """The source of a function, dedented and without its decorators.

    Raises:
        InputError: The source cannot be found (made by exec, or typed into an interpreter).
    """
    name = getattr(function, "__name__", "function")
    try:
        text = textwrap.dedent(inspect.getsource(function))
        tree = ast.parse(text)
    except (OSError, SyntaxError, TypeError) as error:
        raise InputError(f"The source of {name!r} cannot be read: {error}.") from None
    definition = tree.body[0]
    lines = io.StringIO(text).readlines()  # as Python counts them: form feeds end no line
    return Code("".join(lines[definition.lineno - 1 : definition.end_lineno]), name)


@functools.lru_cache(maxsize=256)
def _source_or_none(function: Callable[..., Any]) -> Code | None:
    try:
        return source_of(function)
    except InputError:
        return None


@functools.lru_cache(maxsize=256)
def _compiled(code: Code, original: Callable[..., Any]) -> Callable[..., Any]:
    namespace: dict[str, Any] = {}
    # The def lands in `namespace`, its globals stay the module's, so it sees what the original saw.
    compiled = compile(code.source, f"<candidate {code.function}>", "exec")
    exec(compiled, original.__globals__, namespace)  # noqa: S102 - only reached inside a sandbox
    return cast("Callable[..., Any]", namespace[code.function])
