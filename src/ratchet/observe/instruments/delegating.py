"""The way from an instrumented library's spans to whichever provider captures now.

Libraries are instrumented once for the life of a process, and keep the tracer that they were given.
So they get one that asks for the provider at each span: `init` may run again with another.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.trace import (
    NoOpTracer,
    Span,
    Tracer,
    TracerProvider,
    get_current_span,
    use_span,
)

from ratchet.observe.instruments.duplicates import duplicate_of


class DelegatingProvider(TracerProvider):
    """A provider that stands for another, which may be changed.

    Args:
        innermost: Whether its spans are those of calls that a framework around may tell as well.
    """

    target: TracerProvider | None = None
    """Where all routes lead; None while nothing is captured."""

    def __init__(self, *, innermost: bool = False) -> None:
        self._innermost = innermost

    def get_tracer(self, *args: Any, **kwargs: Any) -> Tracer:
        """A tracer that leads to the target."""
        return _DelegatingTracer(args, kwargs, self._innermost)


class _DelegatingTracer(Tracer):
    # OpenInference calls these methods with its own proxy of this object for `self`, which passes
    # on what it has not; so all state is reached by attribute.

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any], innermost: bool) -> None:
        self.arguments = (args, kwargs)
        self.innermost = innermost
        self.made: tuple[TracerProvider | None, Tracer] = (None, NoOpTracer())

    def current(self) -> Tracer:
        """The tracer of the provider that captures now."""
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
        if name in ("arguments", "innermost", "made"):
            raise AttributeError(name)
        return getattr(self.current(), name)
