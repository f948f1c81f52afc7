"""Sinks: where a finished span goes, to the rollout that runs this code or to the live pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ratchet.observe import collector as rollouts

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from ratchet.observe.step_span import StepSpan


class Sink(Protocol):
    """What takes finished spans. Its methods return at once and raise nothing."""

    content: bool
    """Whether inputs and outputs are wanted."""
    tracer: Tracer | None
    """The user's own, which makes a span beside each of ours; None where they have none."""
    content_beside: bool
    """Whether those spans get inputs and outputs too."""

    def take(self, span: StepSpan) -> None:
        """Keep a finished span."""
        ...


_live: Sink | None = None


def set_live(sink: Sink | None) -> None:
    """Record what runs outside of rollouts too, for the whole process."""
    global _live
    _live = sink


def current_sink() -> Any:
    """Where a span that starts here goes: a `Sink`, or None when nothing is recorded."""
    collector = rollouts.collecting.get()
    if collector is None or (collector.over and rollouts._process is not None):
        return rollouts._process or _live
    return collector
