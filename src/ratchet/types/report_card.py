"""Report cards: how far an evaluator can be trusted, as measured."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

CardVerdict: TypeAlias = Literal["decides", "advises", "rejected", "insufficient"]
"""decides: an experiment may be decided by it. advises: it is shown, and decides nothing. rejected:
it misleads. insufficient: too little is known; `labels_needed` says how many labels are missing."""


class CardCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A measurement of an evaluator, with its limits."""

    name: str
    value: float | None
    """The estimate; None if it could not be measured."""
    low: float | None = None
    """Lower end of its 95 % interval."""
    high: float | None = None
    n: int = 0
    """Number of cases behind it."""
    verdict: CardVerdict
    """What this check alone would allow."""
    detail: str = ""
    """One sentence for display."""


class CardOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A real output on which a report card is based."""

    rollout_id: str
    score: float | None = None
    """The evaluator's score; None if it gave none."""
    label: float | None = None
    """Mean of people's labels; None without any."""


class ReportCard(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured about a version of an evaluator, and what the evaluator may therefore
    do."""

    id: str
    """Content hash of the evaluator's version, the data and the thresholds."""
    evaluator: str
    version: str
    """Version of the evaluator, as in its scores."""
    verdict: CardVerdict
    reasons: tuple[str, ...] = ()
    """The reasons, a sentence each; the decisive one first."""
    checks: tuple[CardCheck, ...] = ()
    labels: int = 0
    """Number of human labels on which it is based."""
    labels_needed: int | None = None
    """Number of labels that are missing for a verdict, if that is what is missing."""
    rollouts: int = 0
    """Number of outputs on which it is based."""
    cost_usd: float | None = 0.0
    """Dollars of model answers per score; None if a model's price is unknown."""
    seconds: float = 0.0
    """Seconds per score, while several were made in parallel."""
    outputs: tuple[CardOutput, ...] = ()
    """The outputs on which it is based. Empty in lists of cards."""
    data: str = ""
    """Content hash of the outputs, labels and damaged copies."""
    created_at: float = 0.0
    """Unix seconds."""
