"""Stores the outcomes that workers of a killed parent left on disk."""

from __future__ import annotations

import time
from pathlib import Path

from ratchet.store import Store
from ratchet.worker.outbox import left_in

OUTBOX = "outcomes"
"""Name of the folder, in a state folder, in which workers leave outcomes."""


def store_left_outcomes(store: Store, state: Path) -> None:
    """Store what was left in a state folder; skips rollouts that have gone on since.

    Raises:
        StoreError: They cannot be stored, and stay where they are.
    """
    for outcomes in left_in(state / OUTBOX):
        store.rollouts.finish(outcomes, now=time.time())
