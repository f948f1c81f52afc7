"""Trackers: programs and services that show the curves of training runs.

A tracker is a function of `RunCurves` and of a place, such as the name of a project there. It
writes or sends the curves, and returns what it did as a line to print. Packages add trackers as
entry points of the group `ratchet.trackers`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import msgspec


class RunCurves(msgspec.Struct, frozen=True, kw_only=True):
    """The curves of a training run that may still be running."""

    name: str
    points: list[tuple[int, dict[str, float]]]
    """Steps in order, with numbers by metric; a step is repeated once its validation is there."""
    changed_at: float
    """Time at which the last step was recorded, in Unix seconds."""
    state: Path
    """Folder for files that the tracker itself needs."""


Tracker: TypeAlias = Callable[[RunCurves, str], str]
