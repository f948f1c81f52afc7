"""Records one step of an agent: as a `with` block, or as a wrapper of a function."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from time import perf_counter
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import msgspec

from ratchet.observe.capture import capture
from ratchet.observe.collector import block, current_sink, replayed
from ratchet.observe.replay import REPLAYABLE, REPLAYED, is_replayable
from ratchet.types import RatchetError

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context

    from ratchet.observe.step_span import StepSpan

ArgumentReader = Callable[[tuple[Any, ...], dict[str, Any]], Mapping[str, Any]]

_OWN = ("self", "cls")
_SIMPLE = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)


def argument_reader(function: Callable[..., Any]) -> ArgumentReader:
    """A function that maps a call's arguments to their names, without `self` and `cls`."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions written in C have no signature
        return _unnamed
    parameters = list(signature.parameters.values())
    names = tuple(parameter.name for parameter in parameters if parameter.kind in _SIMPLE)
    own = len([name for name in names[:1] if name in _OWN])
    if any(parameter.kind == inspect.Parameter.VAR_POSITIONAL for parameter in parameters) or any(
        name in _OWN for name in names[1:]
    ):
        return _bound(signature)
    positional = names[own:]

    def read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        if not args:
            return kwargs
        # Too many arguments: the call itself raises.
        arguments = dict(zip(positional, args[own:] if own else args, strict=False))
        if kwargs:
            arguments.update(kwargs)
        return arguments

    return read


def _bound(signature: inspect.Signature) -> ArgumentReader:
    def read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Mapping[str, Any]:
        try:
            bound = signature.bind(*args, **kwargs).arguments
        except TypeError:  # the call itself raises
            return _unnamed(args, kwargs)
        return {name: value for name, value in bound.items() if name not in _OWN}

    return read


def _unnamed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    return {"args": args, "kwargs": kwargs}


P = ParamSpec("P")
R = TypeVar("R")

LIVE_CALL = "ratchet.live_call"
"""Key in OpenTelemetry's context of the live call, so that threads inherit it with the trace."""

CAPTURE_LIMIT = 16_384
"""Maximum number of characters of a step's input, and of its output."""

FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
"""Seconds from the call to the first item of a stream."""


class SideEffectBlocked(RatchetError):
    """A tool with side effects was called in a rollout: the rollout ends as `inconclusive`."""


class SpanTemplate(msgspec.Struct, frozen=True):
    """Name, kind and attributes of the spans of one step."""

    name: str
    kind: str
    """A key of `step_kinds.KINDS`."""
    input_key: str = "ratchet.input"
    output_key: str = "ratchet.output"
    side_effects: bool = False
    attributes: dict[str, Any] = {}
    limit: int = CAPTURE_LIMIT
    """Maximum number of characters of its input, and of its output."""


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
            self._span = span = _begin(self._template, sink)
            self._token = _attach(span)
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
            _detach(token)
        span.end()


@functools.cache
def _spans() -> ModuleType:
    # Deferred: it imports OpenTelemetry.
    from ratchet.observe import step_span

    return step_span


def _begin(template: SpanTemplate, sink: Any) -> StepSpan:
    span: StepSpan = _spans().begin(template, sink)
    return span


def _attach(span: StepSpan) -> Token[Context]:
    token: Token[Context] = _spans().attach_span(span)
    return token


def _detach(token: Token[Context]) -> None:
    _spans().detach_span(token)


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
    read = argument_reader(function)
    guarded = template.side_effects

    def begin(sink: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> StepSpan:
        span = _begin(template, sink)
        if sink.content:
            span.capture_input(read(args, kwargs))
        return span

    def recorded(span: StepSpan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bool, Any]:
        """Whether the result of this call was recorded, and the result."""
        is_replayed, result = replayed(template.name, capture(read(args, kwargs), template.limit))
        if is_replayed:
            span.attributes[REPLAYED] = True
            span.capture_output(result)
        return is_replayed, result

    def note(span: StepSpan, result: Any) -> None:
        """Note whether the result of a live call can be replayed."""
        text = span.attributes.get(template.output_key)
        if type(text) is str and is_replayable(result, text):
            span.attributes[REPLAYABLE] = True

    def refuse() -> None:
        # Also where nothing is recorded: a child process of an agent must not act either.
        if guarded and block(template.name):
            raise SideEffectBlocked(
                f"The tool {template.name!r} has side effects and no recorded result to replay, so"
                " it does not act in a rollout."
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
                if guarded:
                    is_replayed, result = recorded(span, args, kwargs)
                    if is_replayed:
                        return result
                    refuse()
                result = await function(*args, **kwargs)
                span.capture_output(result)
                if guarded:
                    note(span, result)
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
            recorder = _StreamRecorder(
                None if sink is None else begin(sink, args, kwargs), template
            )
            with recorder:
                with recorder.current():
                    refuse()
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

    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def iterate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            sink = current_sink()
            recorder = _StreamRecorder(
                None if sink is None else begin(sink, args, kwargs), template
            )
            with recorder:
                with recorder.current():
                    refuse()
                    generator = function(*args, **kwargs)
                return (yield from _RecordedGenerator(generator, recorder))

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
            if guarded:
                is_replayed, result = recorded(span, args, kwargs)
                if is_replayed:
                    return result
                refuse()
            result = function(*args, **kwargs)
            span.capture_output(result)
            if guarded:
                note(span, result)
            return result
        except BaseException as error:
            span.failed(error)
            raise
        finally:
            _detach(token)
            span.end()

    return run


class _StreamRecorder:
    """The span of a stream and its items, up to the capture limit."""

    __slots__ = ("_begun", "_characters_left", "_items", "_span", "_template")

    def __init__(self, span: StepSpan | None, template: SpanTemplate) -> None:
        self._span = span
        self._template = template
        self._items: list[Any] = []
        self._characters_left = template.limit if span is not None and span.sink.content else 0
        self._begun = perf_counter()

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Make the span current while the generator runs, and only then.

        What a generator sets in the context would otherwise stay set for its consumer.
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
        """Record an item."""
        span = self._span
        if span is None:
            return
        if self._begun:
            span.attributes[FIRST_CHUNK] = perf_counter() - self._begun
            if self._template.kind == "llm":
                span.attributes["gen_ai.request.stream"] = True
            self._begun = 0.0
        if self._characters_left > 0:
            # An item takes at least one character, so further items would be cut anyway.
            self._characters_left -= len(item) if type(item) in (str, bytes) else 1
            self._items.append(item)

    def _finish(self, span: StepSpan) -> None:
        """Record the items as the step's output."""
        items: Any = self._items
        if self._template.kind == "llm" and items and all(type(chunk) is str for chunk in items):
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
            # The items of a stream that failed or was not read to its end are recorded too.
            if error is None or self._items:
                self._finish(span)
            if error is not None:
                span.failed(error)
            span.end()


class _RecordedGenerator(Generator[Any, Any, Any]):
    """A generator that runs inside its span."""

    def __init__(self, generator: Generator[Any, Any, Any], recorder: _StreamRecorder) -> None:
        self._generator = generator
        self._recorder = recorder

    def send(self, value: Any) -> Any:
        with self._recorder.current():
            item = self._generator.send(value)
        self._recorder.add(item)
        return item

    def throw(self, *error: Any) -> Any:
        with self._recorder.current():
            item = self._generator.throw(*error)
        self._recorder.add(item)
        return item

    def close(self) -> None:
        with self._recorder.current():
            self._generator.close()
