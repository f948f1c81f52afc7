"""One step of an agent, recorded: as a `with` block, or around a function."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import msgspec

from ratchet.observe.arguments import reader
from ratchet.observe.collector import block
from ratchet.observe.sink import current_sink
from ratchet.types import RatchetError

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context

    from ratchet.observe.step_span import StepSpan

P = ParamSpec("P")
R = TypeVar("R")

CAPTURE_LIMIT = 16_384
"""Characters kept of a step's input, and of its output."""

FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
"""Seconds from the call to the first item of a stream."""


class SideEffectBlocked(RatchetError):
    """A tool with side effects was called in a rollout: the rollout ends as `inconclusive`."""


class Plan(msgspec.Struct, frozen=True):
    """What the spans of one step look like."""

    name: str
    kind: str
    """A key of `kinds.KINDS`."""
    input_key: str = "ratchet.input"
    output_key: str = "ratchet.output"
    side_effects: bool = False
    attributes: dict[str, Any] = {}
    limit: int = CAPTURE_LIMIT
    """Characters kept of its input, and of its output."""


class Step:
    """A running step. Use it as `with ratchet.trace("name") as step`.

    Where nothing is recorded it costs next to nothing.
    """

    __slots__ = ("_ids", "_plan", "_span", "_token")

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._span: StepSpan | None = None
        self._token: Token[Context] | None = None
        self._ids: tuple[int, int] | None = None
        """Trace and span, once it has ended: feedback comes later."""

    def __enter__(self) -> Step:
        sink = current_sink()
        if sink is not None:
            self._span = span = _begin()(self._plan, sink)
            self._token = _attach(span)
        return self

    def set(self, key: str, value: Any) -> None:
        """Add an attribute; what is neither text, number nor boolean is kept as JSON."""
        if self._span is not None:
            self._span.foreign = True
            self._span.keep(key, value)

    @property
    def recording(self) -> bool:
        """Whether anything is kept of this step."""
        return self._span is not None

    @property
    def trace_id(self) -> str:
        """The step's trace, to give feedback on it, also when it has ended.

        Empty where nothing is recorded.
        """
        if self._span is not None:
            return f"{self._span.trace_id:032x}"
        return f"{self._ids[0]:032x}" if self._ids is not None else ""

    @property
    def span_id(self) -> str:
        """The step's span, to give feedback on it, also when it has ended.

        Empty where nothing is recorded.
        """
        if self._span is not None:
            return f"{self._span.span_id:016x}"
        return f"{self._ids[1]:016x}" if self._ids is not None else ""

    @property
    def input(self) -> None:
        """Assign to record the step's input."""

    @input.setter
    def input(self, value: Any) -> None:
        if self._span is not None:
            self._span.capture_input(value)

    @property
    def output(self) -> None:
        """Assign to record the step's output."""

    @output.setter
    def output(self, value: Any) -> None:
        if self._span is not None:
            self._span.capture_output(value)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        span, token = self._span, self._token
        if span is None:
            return
        self._span = self._token = None
        self._ids = (span.trace_id, span.span_id)
        if error is not None:
            span.failed(error)
        if token is not None:
            _detach(token)
        span.end()


@functools.cache
def _begin() -> Callable[[Plan, Any], StepSpan]:
    # OpenTelemetry is imported at the first span, not before.
    from ratchet.observe.step_span import begin

    return begin


def _attach(span: StepSpan) -> Token[Context]:
    """Make the span OpenTelemetry's current one."""
    from opentelemetry.context import attach
    from opentelemetry.trace import set_span_in_context

    return attach(set_span_in_context(span))


def _detach(token: Token[Context]) -> None:
    from opentelemetry.context import detach

    detach(token)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call has to be awaited: a coroutine function, or an object with an async call."""
    return inspect.iscoroutinefunction(function) or (
        not inspect.isroutine(function)
        and inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
    )


def wrap(function: Any, plan: Plan) -> Any:
    """The function, recorded as a step each time it is called where something is recorded.

    Args:
        function: Sync or async, a generator function of either kind, an object that can be called,
            or a class method, static method or property as its decorator left it.
        plan: What the spans look like.
    """
    if isinstance(function, (classmethod, staticmethod)):
        return type(function)(wrap(function.__func__, plan))
    if isinstance(function, property) and function.fget is not None:
        return function.getter(wrap(function.fget, plan))
    if isinstance(function, functools.cached_property):
        return functools.cached_property(wrap(function.func, plan))
    read = reader(function)
    guarded = plan.side_effects

    def begin(sink: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> StepSpan:
        span = _begin()(plan, sink)
        if sink.content:
            span.capture_input(read(args, kwargs))
        return span

    def refuse() -> None:
        # Where nothing is recorded too: a child process of an agent may not act either.
        if guarded and block(plan.name):
            raise SideEffectBlocked(
                f"The tool {plan.name!r} has side effects and no recorded result to replay, so it"
                " does not act in a rollout."
            )

    if is_async(function):

        @functools.wraps(function)
        async def run_async(*args: Any, **kwargs: Any) -> Any:
            sink = current_sink()
            if sink is None:
                if guarded:
                    refuse()
                return await function(*args, **kwargs)
            span = begin(sink, args, kwargs)
            token = _attach(span)
            try:
                refuse()
                result = await function(*args, **kwargs)
                span.capture_output(result)
                return result
            except BaseException as error:
                span.failed(error)
                raise
            finally:
                _detach(token)
                span.end()

        return run_async

    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def iterate_async(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
            sink = current_sink()
            kept = _Kept(None if sink is None else begin(sink, args, kwargs), plan)
            with kept:
                with kept.current():
                    refuse()
                    generator = function(*args, **kwargs)
                async with contextlib.aclosing(generator):
                    coming = generator.asend(None)
                    while True:
                        try:
                            with kept.current():
                                item = await coming
                        except StopAsyncIteration:
                            break
                        kept.add(item)
                        try:
                            sent = yield item
                        except GeneratorExit:
                            raise
                        except BaseException as error:  # thrown in by whoever iterates
                            coming = generator.athrow(error)
                        else:
                            coming = generator.asend(sent)

        return iterate_async

    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def iterate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            sink = current_sink()
            kept = _Kept(None if sink is None else begin(sink, args, kwargs), plan)
            with kept:
                with kept.current():
                    refuse()
                    generator = function(*args, **kwargs)
                return (yield from _Resumed(generator, kept))

        return iterate

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        sink = current_sink()
        if sink is None:
            if guarded:
                refuse()
            return function(*args, **kwargs)
        span = begin(sink, args, kwargs)
        token = _attach(span)
        try:
            refuse()
            result = function(*args, **kwargs)
            span.capture_output(result)
            return result
        except BaseException as error:
            span.failed(error)
            raise
        finally:
            _detach(token)
            span.end()

    return run


class _Kept:
    """The span of a stream and what it yielded, within the bounds of what is captured."""

    __slots__ = ("_begun", "_items", "_plan", "_room", "_span")

    def __init__(self, span: StepSpan | None, plan: Plan) -> None:
        self._span = span
        self._plan = plan
        self._items: list[Any] = []
        self._room = plan.limit if span is not None and span.sink.content else 0
        self._begun = perf_counter()

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Make the span the current one while the stream runs, and only then.

        What a generator sets in the context stays set when it yields, for whoever iterates.
        """
        if self._span is None:
            yield
            return
        token = _attach(self._span)
        try:
            yield
        finally:
            _detach(token)

    def add(self, item: Any) -> None:
        """Keep an item."""
        span = self._span
        if span is None:
            return
        if self._begun:
            span.attributes[FIRST_CHUNK] = perf_counter() - self._begun
            if self._plan.kind == "llm":
                span.attributes["gen_ai.request.stream"] = True
            self._begun = 0.0
        if self._room > 0:
            # Each item takes a character at least: more of them would be cut anyway.
            self._room -= len(item) if type(item) in (str, bytes) else 1
            self._items.append(item)

    def _finish(self, span: StepSpan) -> None:
        """Record what was yielded as the step's output."""
        items: Any = self._items
        if self._plan.kind == "llm" and items and all(type(each) is str for each in items):
            items = "".join(items)
        span.capture_output(items)

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        span = self._span
        if span is not None:
            # Of a stream that failed, or that nobody read to its end, what came before counts too.
            if error is None or self._items:
                self._finish(span)
            if error is not None:
                span.failed(error)
            span.end()


class _Resumed(Generator[Any, Any, Any]):
    """A generator that is resumed inside its span."""

    def __init__(self, generator: Generator[Any, Any, Any], kept: _Kept) -> None:
        self._generator = generator
        self._kept = kept

    def send(self, value: Any) -> Any:
        with self._kept.current():
            item = self._generator.send(value)
        self._kept.add(item)
        return item

    def throw(self, *error: Any) -> Any:
        with self._kept.current():
            item = self._generator.throw(*error)
        self._kept.add(item)
        return item

    def close(self) -> None:
        with self._kept.current():
            self._generator.close()
