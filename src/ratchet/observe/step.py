"""Records one step of an agent: as a `with` block, or as a wrapper of a function."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ratchet.observe.capture import capture
from ratchet.observe.collector import block, current_sink, replayed
from ratchet.observe.deferred_spans import attach, begin_span, detach
from ratchet.observe.replay import REPLAYABLE, REPLAYED, is_replayable
from ratchet.observe.span_template import SpanTemplate
from ratchet.observe.step_arguments import argument_reader
from ratchet.observe.step_streams import RecordedGenerator, StreamRecorder
from ratchet.types import RatchetError

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context

    from ratchet.observe.step_span import StepSpan


class SideEffectBlocked(RatchetError):
    """A tool with side effects was called in a rollout, which ends as `inconclusive`."""


class Step:
    """A running step, as in `with ratchet.trace("name") as step`.

    It costs next to nothing where nothing is recorded.
    """

    __slots__ = ("_ids", "_span", "_template", "_token")

    def __init__(self, template: SpanTemplate) -> None:
        self._template = template
        self._span: StepSpan | None = None
        self._token: Token[Context] | None = None
        self._ids: tuple[int, int] | None = None
        """Trace and span id after the end, for feedback."""

    def __enter__(self) -> Step:
        sink = current_sink()
        if sink is not None:
            self._span = span = begin_span(self._template, sink)
            self._token = attach(span)
        return self

    def set(self, key: str, value: Any) -> None:
        """Add an attribute; anything but text, numbers and booleans is stored as JSON."""
        if self._span is not None:
            self._span.foreign = True
            self._span.keep(key, value)

    @property
    def recording(self) -> bool:
        """Whether this step is recorded."""
        return self._span is not None

    @property
    def trace_id(self) -> str:
        """Id of the step's trace, for feedback; also available after the step has ended.

        Empty if the step is not recorded.
        """
        if self._span is not None:
            return f"{self._span.trace_id:032x}"
        return f"{self._ids[0]:032x}" if self._ids is not None else ""

    @property
    def span_id(self) -> str:
        """Id of the step's span, for feedback; also available after the step has ended.

        Empty if the step is not recorded.
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
            detach(token)
        span.end()


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call returns an awaitable: a coroutine function, or an object whose call is one."""
    return inspect.iscoroutinefunction(function) or (
        not inspect.isroutine(function)
        and inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
    )


def wrap(function: Any, template: SpanTemplate) -> Any:
    """Wrap a function so that each call is recorded as a step.

    Args:
        function: A sync or async function or generator function, a callable object, or the result
            of `classmethod`, `staticmethod`, `property` or `cached_property`.
        template: Name, kind and attributes of the spans.
    """
    if isinstance(function, (classmethod, staticmethod)):
        return type(function)(wrap(function.__func__, template))
    if isinstance(function, property) and function.fget is not None:
        return function.getter(wrap(function.fget, template))
    if isinstance(function, functools.cached_property):
        return functools.cached_property(wrap(function.func, template))
    calls = _Calls(function, template)
    if is_async(function):
        return _async_function(function, calls)
    if inspect.isasyncgenfunction(function):
        return _async_generator(function, calls)
    if inspect.isgeneratorfunction(function):
        return _generator(function, calls)
    return _function(function, calls)


class _Calls:
    """Begins and completes the spans of a function's calls."""

    __slots__ = ("_read", "guarded", "template")

    def __init__(self, function: Callable[..., Any], template: SpanTemplate) -> None:
        self._read = argument_reader(function)
        self.template = template
        self.guarded = template.side_effects

    def begin(self, sink: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> StepSpan:
        span = begin_span(self.template, sink)
        if sink.content:
            span.capture_input(self._read(args, kwargs))
        return span

    def stream(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> StreamRecorder:
        sink = current_sink()
        span = None if sink is None else self.begin(sink, args, kwargs)
        return StreamRecorder(span, self.template)

    def recorded(
        self, span: StepSpan, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[bool, Any]:
        """Whether the result of this call was recorded, and the result."""
        arguments = capture(self._read(args, kwargs), self.template.limit)
        is_replayed, result = replayed(self.template.name, arguments)
        if is_replayed:
            span.attributes[REPLAYED] = True
            span.capture_output(result)
        return is_replayed, result

    def note(self, span: StepSpan, result: Any) -> None:
        """Note whether the result of a live call can be replayed."""
        text = span.attributes.get(self.template.output_key)
        if type(text) is str and is_replayable(result, text):
            span.attributes[REPLAYABLE] = True

    def refuse(self) -> None:
        # Also where nothing is recorded: a child process of an agent must not act either.
        if self.guarded and block(self.template.name):
            raise SideEffectBlocked(
                f"The tool {self.template.name!r} has side effects, but no recorded result to "
                "replay, so it is not run in a rollout."
            )


def _async_function(function: Any, calls: _Calls) -> Any:
    @functools.wraps(function)
    async def run_async(*args: Any, **kwargs: Any) -> Any:
        sink = current_sink()
        if sink is None:
            if calls.guarded:
                calls.refuse()
            return await function(*args, **kwargs)
        span = calls.begin(sink, args, kwargs)
        token = attach(span)
        try:
            if calls.guarded:
                is_replayed, result = calls.recorded(span, args, kwargs)
                if is_replayed:
                    return result
                calls.refuse()
            result = await function(*args, **kwargs)
            span.capture_output(result)
            if calls.guarded:
                calls.note(span, result)
            return result
        except BaseException as error:
            span.failed(error)
            raise
        finally:
            detach(token)
            span.end()

    return run_async


def _async_generator(function: Any, calls: _Calls) -> Any:
    @functools.wraps(function)
    async def iterate_async(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        recorder = calls.stream(args, kwargs)
        with recorder:
            with recorder.current():
                calls.refuse()
                generator = function(*args, **kwargs)
            async with contextlib.aclosing(generator):
                coming = generator.asend(None)
                while True:
                    try:
                        with recorder.current():
                            item = await coming
                    except StopAsyncIteration:
                        break
                    recorder.add(item)
                    try:
                        sent = yield item
                    except GeneratorExit:
                        raise
                    except BaseException as error:  # thrown in by the consumer
                        coming = generator.athrow(error)
                    else:
                        coming = generator.asend(sent)

    return iterate_async


def _generator(function: Any, calls: _Calls) -> Any:
    @functools.wraps(function)
    def iterate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        recorder = calls.stream(args, kwargs)
        with recorder:
            with recorder.current():
                calls.refuse()
                generator = function(*args, **kwargs)
            return (yield from RecordedGenerator(generator, recorder))

    return iterate


def _function(function: Any, calls: _Calls) -> Any:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        sink = current_sink()
        if sink is None:
            if calls.guarded:
                calls.refuse()
            return function(*args, **kwargs)
        span = calls.begin(sink, args, kwargs)
        token = attach(span)
        try:
            if calls.guarded:
                is_replayed, result = calls.recorded(span, args, kwargs)
                if is_replayed:
                    return result
                calls.refuse()
            result = function(*args, **kwargs)
            span.capture_output(result)
            if calls.guarded:
                calls.note(span, result)
            return result
        except BaseException as error:
            span.failed(error)
            raise
        finally:
            detach(token)
            span.end()

    return run
