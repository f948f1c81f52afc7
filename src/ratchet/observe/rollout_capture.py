"""Spans of libraries inside rollouts, where the agent's source does not call `ratchet.init`.

What a rollout's model calls said is what algorithms learn from, and its tokens are what it cost.
Outside of rollouts nothing is captured: that is the user's to ask for.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ratchet.observe.joining import Joining

_log = logging.getLogger("ratchet")

_joining: Joining | None = None


class _Nowhere:
    """Stands for the live pipeline: there is none."""

    content_beside = False
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
    global _joining
    from ratchet.observe import setup

    if _joining is not None or setup.current() is not None or setup.is_disabled(os.environ):
        return
    try:
        from ratchet.observe import instruments
        from ratchet.observe.joining import Joining

        _joining = Joining(_Nowhere())
        _joining.join()
        instruments.install(_joining.provider)
    except Exception as error:
        _log.warning("Libraries could not be instrumented: %s: %s", type(error).__name__, error)


def take_over(live: Any) -> Joining | None:
    """The tie to OpenTelemetry that `capture_rollouts` made, now of a live pipeline; or None."""
    global _joining
    joining, _joining = _joining, None
    if joining is not None:
        joining.go_live(live)
    return joining
