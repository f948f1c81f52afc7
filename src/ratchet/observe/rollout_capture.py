"""Captures the spans of libraries in rollouts of agents that do not call `ratchet.init`.

Algorithms learn from the messages of a rollout's model calls, and their tokens are its cost.
Outside of rollouts nothing is captured unless the user calls `ratchet.init`.
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
    """Stands in for a live pipeline where there is none."""

    mirror_content = False
    tracer: Any = None

    def take_foreign(self, span: Any) -> None:
        """Drop a span outside rollouts."""

    def flush(self, timeout_s: float) -> bool:
        """Do nothing: nothing is queued."""
        return True


def capture_rollouts() -> None:
    """Instrument the libraries of this process for the rollouts that run in it. Never raises.

    Does nothing after `ratchet.init`, whose capture includes rollouts; a later `ratchet.init` takes
    over. RATCHET_DISABLED=1 switches it off.
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
    """The bridge of `capture_rollouts`, switched to a live pipeline; None if there is none."""
    global _bridge
    bridge, _bridge = _bridge, None
    if bridge is not None:
        bridge.go_live(live)
    return bridge
