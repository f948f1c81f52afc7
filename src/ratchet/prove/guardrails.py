"""Guardrails: proofs that a metric is not worse than a margin allows (non-inferiority).

Each guardrail is a separate e-process against "worse than the margin". It passes when the e-value
reaches 1 / alpha, the level of the whole decision: a candidate is promoted only if it is proved
better *and* every guardrail passed, so a false promotion needs at least one true null to be
rejected, and the probability of that is at most alpha however many guardrails there are (an
intersection-union test; Berger, "Multiparameter hypothesis testing and acceptance sampling", 1982).

A pair in which a side was not measured counts as the largest possible worsening. A metric that was
measured in no pair is called not measured.
"""

from __future__ import annotations

from math import isfinite
from typing import Literal, TypeAlias

import msgspec

from ratchet.types import InputError

Aggregate: TypeAlias = Literal["mean", "relative"]


class Guardrail(msgspec.Struct, frozen=True):
    """A metric that must not get worse by more than a margin.

    `aggregate="mean"` bounds the mean of the per-pair worsening, divided by `scale` and clipped to
    [-1, 1]. Clipping means that a pair cannot count for more than `scale`: with scale 0.10 USD, a
    rollout that costs 5 USD more counts as 0.10 USD more. Choose `scale` as the largest difference
    that you would want to count in full; larger makes the proof slower, in proportion to its
    square. For metrics in [0, 1] (error rates, safety scores) scale 1 never clips.

    `aggregate="relative"` needs no scale and suits latency and cost, whose tails are heavy: it
    compares each pair by (candidate - baseline) / max(candidate, baseline), which lies in [-1, 1],
    treats a doubling and a halving alike, and has mean zero when the two sides are exchangeable.
    A margin of 0.25 says "not 25 % worse": a candidate that takes 1.25 times as long on every
    task stands exactly at the margin. Below `floor` differences are small whatever their ratio:
    there a pair counts by (candidate - baseline) / floor.

    Args:
        metric: Name of the metric in the pairs.
        margin: Smallest unacceptable worsening, in the metric's unit, or as a fraction when
            `relative`. Zero or more, below `scale` (below 1 when relative and higher is better).
        scale: Worsening of one pair that counts in full, in the metric's unit. Unused when
            `relative`.
        unit: For display, such as `s` or `USD`.
        lower_is_better: True for cost and latency, False for a score.
        aggregate: `mean` or `relative`.
        floor: With `relative`, in the metric's unit: values below it are negligible.

    Raises:
        InputError: A value is out of range.
    """

    metric: str
    margin: float
    scale: float = 1.0
    unit: str = ""
    lower_is_better: bool = True
    aggregate: Aggregate = "mean"
    floor: float = 0.0

    def __post_init__(self) -> None:
        if not self.metric:
            raise InputError("A guardrail has no metric name.")
        if self.aggregate not in ("mean", "relative"):
            raise InputError(
                f"Guardrail {self.metric!r} has aggregate {self.aggregate!r},"
                " which is neither 'mean' nor 'relative'."
            )
        for field in ("margin", "scale", "floor"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise InputError(f"Guardrail {self.metric!r}: {field} {value!r} is not a number.")
            if not isfinite(value):
                raise InputError(f"Guardrail {self.metric!r}: {field} {value!r} is not finite.")
            msgspec.structs.force_setattr(self, field, float(value))
        if self.scale <= 0.0:
            raise InputError(f"Guardrail {self.metric!r}: scale {self.scale!r} is not above 0.")
        if self.floor < 0.0:
            raise InputError(f"Guardrail {self.metric!r}: floor {self.floor!r} is below 0.")
        if not 0.0 <= self.bound < 1.0:
            raise InputError(
                f"Guardrail {self.metric!r}: margin {self.margin!r} is not between 0 and "
                + ("1." if self.aggregate == "relative" else f"its scale {self.scale!r}."),
                hint="A margin is the smallest unacceptable worsening.",
            )

    @property
    def bound(self) -> float:
        """The margin on the scale of `worsening`: a mean of at least this is "worse"."""
        if self.aggregate == "mean":
            return self.margin / self.scale
        # c = b (1 + margin) gives (c - b) / c = margin / (1 + margin).
        return self.margin / (1.0 + self.margin) if self.lower_is_better else self.margin

    def worsening(self, baseline: float, candidate: float) -> float:
        """How much worse the candidate did on one pair, in [-1, 1].

        Raises:
            InputError: A relative guardrail met a negative value.
        """
        worse = candidate - baseline if self.lower_is_better else baseline - candidate
        if self.aggregate == "relative":
            if baseline < 0.0 or candidate < 0.0:
                raise InputError(
                    f"Guardrail {self.metric!r} is relative, but a pair has the negative value"
                    f" {min(baseline, candidate)!r}.",
                    hint="Use aggregate='mean' with a scale.",
                )
            largest = max(baseline, candidate, self.floor)
            return worse / largest if largest > 0.0 else 0.0
        share = worse / self.scale
        return -1.0 if share < -1.0 else 1.0 if share > 1.0 else share
