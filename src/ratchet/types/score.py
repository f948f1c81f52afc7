"""Scores: an evaluator's result for a rollout."""

from __future__ import annotations

import msgspec


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """An evaluator's score of a rollout. Either `value` or `error` is set."""

    evaluator: str
    version: str
    """Version of the evaluator: a hash of its source and settings."""
    value: float | None
    """A number in [0, 1] if `unit` is empty, else a number in that unit; None on error."""
    unit: str = ""
    """Empty for a score in [0, 1], else a unit such as `s` or `USD`."""
    rationale: str = ""
    error: str = ""
    """Why the evaluator gave no value. Shown to the user; never counted as zero."""
