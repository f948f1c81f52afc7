"""Spans of libraries inside rollouts, where the agent's source does not call `ratchet.init`.

What a rollout's model calls said is what algorithms learn from, and its tokens are what it cost.
Outside of rollouts nothing is captured: that is the user's to ask for.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ratchet.observe.otel_bridge import OtelBridge

_log = logging.getLogger("ratchet")

_bridge: OtelBridge | None = None


class _NullPipeline:
    """Stands for the live pipeline: there is none."""

    mirror_content = False
    tracer: Any = None

    def take_foreign(self, span: Any) -> None:
        """A span outside of rollouts."""

    def flush(self, timeout_s: float) -> bool:
        """Nothing waits."""
        return True


def capture_rollouts() -> None:
    """Instrument the libraries of this process for the rollouts that run in it. Never raises.

    Where `ratchet.init` was called, its capture does; called later, it takes this one over.
    RATCHET_DISABLED=1 switches it off.
    """
    global _bridge
    from ratchet.observe import setup

    if _bridge is not None or setup.current() is not None or setup.is_disabled(os.environ):
        return
    try:
        from ratchet.observe import instruments
        from ratchet.observe.otel_bridge import OtelBridge

        _bridge = OtelBridge(_NullPipeline())
        _bridge.connect()
        instruments.install(_bridge.provider)
    except Exception as error:
        _log.warning("Libraries could not be instrumented: %s: %s", type(error).__name__, error)


def take_over(live: Any) -> OtelBridge | None:
    """The tie to OpenTelemetry that `capture_rollouts` made, now of a live pipeline; or None."""
    global _bridge
    bridge, _bridge = _bridge, None
    if bridge is not None:
        bridge.go_live(live)
    return bridge
