"""What an evaluator is, and how a plain function becomes one."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import hashlib
import inspect
import math
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, overload

import msgspec

from ratchet.types import InputError, Rollout, Score, Span
from ratchet.types.hashing import HASH_LENGTH, content_hash

TIMEOUT_S = 30.0
"""Seconds that one verdict may take."""

PARAMETERS = ("output", "expected", "input", "metadata", "rollout", "spans")
"""What an evaluator's function may ask for, by parameter name."""

SpansOf = Callable[[str], list[Span]]
"""Reads the spans of a rollout by its id."""


class Evaluator(Protocol):
    """Maps a rollout to a score."""

    @property
    def name(self) -> str:
        """Its name, unique in a project."""
        ...

    @property
    def version(self) -> str:
        """Hash of its source and settings: another version's scores are other scores."""
        ...

    @property
    def unit(self) -> str:
        """Empty for scores in [0, 1], else the unit of its numbers."""
        ...

    async def score(self, rollout: Rollout, spans_of: SpansOf) -> Score:
        """The verdict on a rollout. What goes wrong becomes an error score; it does not raise."""
        ...


class Judgement(msgspec.Struct, frozen=True):
    """What an evaluator's function may return instead of a bare number, to say why."""

    value: float
    rationale: str = ""


class FunctionEvaluator:
    """An evaluator made of a function. Make one with `@ratchet.evaluator`.

    Args:
        function: Sync or async; its parameters are among PARAMETERS; it returns a number, a boolean
            or a Judgement.
        name: Its name.
        unit: Empty for scores in [0, 1].
        options: Settings that the function was made with; part of the version.
        trusted: Quick and known to return: called without a thread and a time-out of its own.
        timeout_s: Seconds that one verdict may take.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str,
        unit: str = "",
        options: Mapping[str, Any] | None = None,
        trusted: bool = False,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        functools.update_wrapper(self, function)
        self.name = name
        self.unit = unit
        self.version = content_hash([_source_hash(function), name, unit, dict(options or {})])
        self._function = function
        self._trusted = trusted
        self._timeout_s = timeout_s
        self._is_async = inspect.iscoroutinefunction(function)
        self._wants = tuple(inspect.signature(function).parameters)
        unknown = [p for p in self._wants if p not in PARAMETERS]
        if unknown:
            raise InputError(
                f"The evaluator {name!r} has a parameter {unknown[0]!r};"
                f" it may ask for {', '.join(PARAMETERS)}."
            )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, as its tests do."""
        return self._function(*args, **kwargs)

    async def score(self, rollout: Rollout, spans_of: SpansOf) -> Score:
        """The verdict on a rollout; what the function raises becomes an error score."""
        try:
            given = self._arguments(rollout, spans_of)
            if self._is_async:
                async with asyncio.timeout(self._timeout_s):
                    returned = await self._function(**given)
            elif self._trusted:
                returned = self._function(**given)
            else:
                returned = await _in_thread(
                    functools.partial(self._function, **given), self._timeout_s
                )
            return self._judged(returned)
        except TimeoutError:
            return self._error(f"No verdict within {self._timeout_s:g} s.")
        except Exception as error:  # the user's function: its failure is shown, and never a zero
            return self._error(f"{type(error).__name__}: {error}")

    def _arguments(self, rollout: Rollout, spans_of: SpansOf) -> dict[str, Any]:
        values: dict[str, Callable[[], Any]] = {
            "output": lambda: rollout.output,
            "expected": lambda: rollout.expected,
            "input": lambda: rollout.input,
            "metadata": lambda: rollout.metadata,
            "rollout": lambda: rollout,
            "spans": lambda: spans_of(rollout.id),
        }
        return {name: values[name]() for name in self._wants}

    def _judged(self, returned: Any) -> Score:
        judgement = returned if isinstance(returned, Judgement) else Judgement(returned)
        value: Any = judgement.value
        if not isinstance(value, (bool, int, float)):
            kind = type(value).__name__
            return self._error(f"It returned {kind} where a number is expected.")
        if not math.isfinite(value):
            return self._error(f"It returned {value}, which is not finite.")
        if not self.unit and not 0.0 <= value <= 1.0:
            return self._error(
                f"It returned {value:g}; a score lies in [0, 1], unless the evaluator has a unit."
            )
        return Score(
            evaluator=self.name,
            version=self.version,
            value=float(value),
            unit=self.unit,
            rationale=judgement.rationale,
        )

    def _error(self, error: str) -> Score:
        return Score(
            evaluator=self.name, version=self.version, value=None, unit=self.unit, error=error
        )


@overload
def evaluator(function: Callable[..., Any], /) -> FunctionEvaluator: ...
@overload
def evaluator(
    *, name: str | None = None, unit: str = "", timeout_s: float = TIMEOUT_S
) -> Callable[[Callable[..., Any]], FunctionEvaluator]: ...
def evaluator(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    unit: str = "",
    timeout_s: float = TIMEOUT_S,
) -> Any:
    """Make a function an evaluator.

    Args:
        function: Sync or async. Its parameters say what it wants, among PARAMETERS. It returns a
            number in [0, 1], a boolean, or a Judgement with a rationale.
        name: The evaluator's name; the function's own by default.
        unit: Unit of its numbers, when they are not scores in [0, 1].
        timeout_s: Seconds that one verdict may take.

    Example:
        >>> @evaluator
        ... def cites_a_source(output):
        ...     return "http" in output
    """
    if function is None:
        return lambda f: FunctionEvaluator(
            f, name=name or f.__name__, unit=unit, timeout_s=timeout_s
        )
    return FunctionEvaluator(
        function, name=name or function.__name__, unit=unit, timeout_s=timeout_s
    )


def _source_hash(function: Callable[..., Any]) -> str:
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        source = repr((code.co_code, code.co_consts)) if code else repr(function)
    return hashlib.sha256(source.encode()).hexdigest()[:HASH_LENGTH]


async def _in_thread(function: Callable[[], Any], timeout_s: float) -> Any:
    """Call in a daemon thread: one that hangs is left behind, and does not hold up the exit."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def work() -> None:
        result: Any = None
        failure: BaseException | None = None
        try:
            result = context.run(function)
            if inspect.isawaitable(result):
                result = asyncio.run(_awaited(result))
        except Exception as error:
            failure = error
        except BaseException as error:  # SystemExit and the like
            failure = RuntimeError(f"{type(error).__name__}: {error}")
        try:
            loop.call_soon_threadsafe(settle, result, failure)
        except RuntimeError:
            pass  # the loop has closed: nobody waits any more

    threading.Thread(target=work, name="ratchet-evaluator", daemon=True).start()
    return await asyncio.wait_for(future, timeout_s)


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value
