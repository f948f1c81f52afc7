"""Scores: what an evaluator says of a rollout."""

from __future__ import annotations

import msgspec


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """One evaluator's verdict on one rollout. Either `value` or `error` is set."""

    evaluator: str
    version: str
    """Version of the evaluator: a hash of its source and settings."""
    value: float | None
    """A number in [0, 1] when `unit` is empty, else a number of that unit; None on error."""
    unit: str = ""
    """Empty for a score in [0, 1], else for instance `s` or `USD`."""
    rationale: str = ""
    error: str = ""
    """Why the evaluator could not say: shown to people, never counted as a zero."""
