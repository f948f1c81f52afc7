"""A TracerProvider that delegates to the provider that is currently capturing.

Libraries are instrumented once in a process and keep the tracer that they were given. So that
`init` can run again, that tracer looks up the provider for each span.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.trace import (
    NonRecordingSpan,
    NoOpTracer,
    Span,
    Tracer,
    TracerProvider,
    get_current_span,
    use_span,
)

from ratchet.observe.instruments.duplicates import duplicate_of, is_repeated_root


class DelegatingProvider(TracerProvider):
    """A provider that delegates to another, which may be replaced.

    Args:
        innermost: Whether its spans may duplicate those of a framework that makes the calls.
        repeats_root: Whether it may record the root span of a run twice.
    """

    target: TracerProvider | None = None
    """The provider of all instances; None while nothing is captured."""

    def __init__(self, *, innermost: bool = False, repeats_root: bool = False) -> None:
        self._innermost = innermost
        self._repeats_root = repeats_root

    def get_tracer(self, *args: Any, **kwargs: Any) -> Tracer:
        """A tracer that delegates to the target."""
        return _DelegatingTracer(args, kwargs, self._innermost, self._repeats_root)


class _DelegatingTracer(Tracer):
    # OpenInference calls these methods with its own proxy of this object as `self`, which forwards
    # unknown attributes; so all state is in attributes without an underscore.

    def __init__(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        innermost: bool,
        repeats_root: bool,
    ) -> None:
        self.arguments = (args, kwargs)
        self.innermost = innermost
        self.repeats_root = repeats_root
        self.made: tuple[TracerProvider | None, Tracer] = (None, NoOpTracer())

    def current(self) -> Tracer:
        """The tracer of the present provider."""
        target, tracer = self.made
        if target is not DelegatingProvider.target:
            target = DelegatingProvider.target
            args, kwargs = self.arguments
            tracer = NoOpTracer() if target is None else target.get_tracer(*args, **kwargs)
            self.made = (target, tracer)
        return tracer

    def start_span(self, name: str, context: Any = None, *args: Any, **kwargs: Any) -> Span:
        around = get_current_span(context)
        if self.innermost:
            duplicate = duplicate_of(around, kwargs.get("attributes") or {})
            if duplicate is not None:
                return duplicate
        if self.repeats_root and is_repeated_root(around, name, kwargs.get("attributes") or {}):
            return NonRecordingSpan(around.get_span_context())
        return self.current().start_span(name, context, *args, **kwargs)

    @contextmanager
    def start_as_current_span(  # type: ignore[override]
        self,
        name: str,
        context: Any = None,
        *args: Any,
        record_exception: bool = True,
        set_status_on_exception: bool = True,
        end_on_exit: bool = True,
        **kwargs: Any,
    ) -> Iterator[Span]:
        span = self.start_span(name, context, *args, **kwargs)
        with use_span(
            span,
            end_on_exit=end_on_exit,
            record_exception=record_exception,
            set_status_on_exception=set_status_on_exception,
        ):
            yield span

    def __getattr__(self, name: str) -> Any:
        # The SDK's tracers have more than the interface says, such as `id_generator`.
        if name in ("arguments", "innermost", "repeats_root", "made"):
            raise AttributeError(name)
        return getattr(self.current(), name)
