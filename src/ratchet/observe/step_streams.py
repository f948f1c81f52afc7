"""Records what a generator yields as the output of its step."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ratchet.observe.deferred_spans import attach, detach
from ratchet.observe.span_template import SpanTemplate

if TYPE_CHECKING:
    from ratchet.observe.step_span import StepSpan

FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
"""Seconds from the call to the first item of a stream."""


class StreamRecorder:
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
        token = attach(self._span)
        try:
            yield
        finally:
            detach(token)

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


class RecordedGenerator(Generator[Any, Any, Any]):
    """A generator that runs inside its span."""

    def __init__(self, generator: Generator[Any, Any, Any], recorder: StreamRecorder) -> None:
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
