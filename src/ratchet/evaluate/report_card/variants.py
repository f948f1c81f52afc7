"""Checks that compare a judge with a variant of itself: the other order, and without defence."""

from __future__ import annotations

import asyncio
import math
import statistics
from collections.abc import Sequence

from ratchet.evaluate.report_card import thresholds as limits
from ratchet.evaluate.report_card.checks import Measured, Z, small_share, small_shift
from ratchet.evaluate.scoring import MAX_CONCURRENT_VERDICTS
from ratchet.types import CardCheck, Rollout
from ratchet.worker.evaluator import Evaluator, SpansOf, VariantCheck

PER_COPY = 4
"""Number of real outputs compared for each copy of a kind."""

TIE = 0.5
"""The score of a pairwise judge that prefers neither answer."""


async def compare_variants(
    evaluator: Evaluator, measured: Measured, spans_of: SpansOf, copies: int
) -> list[CardCheck]:
    """The checks `order` and `hardening`, for evaluators that have these variants.

    Args:
        evaluator: The evaluator.
        measured: Its scored probes; only real outputs are used.
        spans_of: Reads the steps of a rollout.
    """
    variants = getattr(evaluator, "variants", None)
    if variants is None:
        return []
    rollouts = [
        probe.rollout
        for probe, value in zip(measured.probes, measured.values, strict=True)
        if probe.kind == "real" and value is not None
    ][: PER_COPY * copies]
    checks = []
    for name, pair in variants().items():
        scores = await _scores(pair, rollouts, spans_of)
        if scores:
            checks.append(compared(name, scores))
    return checks


def compared(name: VariantCheck, scores: Sequence[tuple[float, float]]) -> CardCheck:
    """The check of two variants from their scores of the same outputs, at least one."""
    n = len(scores)
    if name == "order":
        flips = sum((first - TIE) * (second - TIE) < 0 for first, second in scores)
        detail = f"{flips} of {n} preferences change with the order."
        return small_share(name, flips, n, limits.ORDER, limits.ORDER_ADVISES, detail)
    differences = [first - second for first, second in scores]
    mean = math.fsum(differences) / n
    half = Z * math.sqrt(statistics.variance(differences, mean) / n) if n > 1 else math.inf
    low = max(0.0, abs(mean) - half)
    return CardCheck(
        name=name,
        value=abs(mean),
        low=low,
        high=min(1.0, abs(mean) + half),
        n=n,
        verdict=small_shift(abs(mean), low, limits.HARDENING, limits.HARDENING_ADVISES),
        detail=f"The defence against injections changes scores by {abs(mean):.3f} on average.",
    )


async def _scores(
    pair: tuple[Evaluator, Evaluator], rollouts: Sequence[Rollout], spans_of: SpansOf
) -> list[tuple[float, float]]:
    """The two scores of each output that both evaluators can score."""
    both_scores: list[tuple[float, float] | None] = [None] * len(rollouts)
    left = iter(enumerate(rollouts))

    async def take() -> None:
        for number, rollout in left:
            first, second = [(await evaluator.score(rollout, spans_of)).value for evaluator in pair]
            if first is not None and second is not None:
                both_scores[number] = (first, second)

    await asyncio.gather(*(take() for _ in range(MAX_CONCURRENT_VERDICTS)))
    return [scores for scores in both_scores if scores is not None]
