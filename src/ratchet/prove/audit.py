"""The proof, from people's labels, of a gain that so far only a judge has seen.

A judge can favour a candidate, for its length or its tone, and no number of its own scores shows
that. So people label a part of the experiment's own pairs, drawn at random before the first one is
run: the pairs are cut into blocks of equal size, and of each one pair is drawn. An e-process of the
differences of the labels, in the order of the blocks, tests what the scores are tested for, at the
experiment's alpha.
The judge's scores take no part in it, so no bias of the judge can make it invalid; it may end as
soon as it is proved. What the judge adds is the first hurdle, and a narrower estimate of the gain
(PPI++), which is shown and decides nothing.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

from ratchet.prove.missing import SKIP_LIMIT, gain_against_better
from ratchet.prove.plan import ExperimentPlan, PairedScore
from ratchet.stats.eprocess import EProcess
from ratchet.stats.ppi import predicted_mean
from ratchet.types import LabelledGain

SHOWN_DIGITS = 6
"""Decimals of the shown estimate: its quantile differs in the last bits from machine to machine."""


def drawn_pairs(plan: ExperimentPlan) -> tuple[int, ...]:
    """Numbers of the pairs that people label, from 0, in order; one from each block."""
    count = plan.labels
    if not count:
        return ()
    rng = random.Random(f"labels/{plan.seed}/{count}/{plan.max_pairs}")  # noqa: S311
    ends = [number * plan.max_pairs // count for number in range(count + 1)]
    return tuple(rng.randrange(begin, end) for begin, end in pairwise(ends))


def drawn_repetition(plan: ExperimentPlan, number: int) -> int:
    """Which repetition of a drawn pair people label, from 0."""
    rng = random.Random(f"repetition/{plan.seed}/{number}")  # noqa: S311
    return rng.randrange(plan.repetitions)


class LabelAudit:
    """Evidence from labels, pair by pair.

    Args:
        plan: The rules; it has labels.
    """

    def __init__(self, plan: ExperimentPlan) -> None:
        self.process = EProcess(
            null=0.0 - plan.margin, threshold=1.0 / plan.alpha, horizon=plan.labels
        )
        self._plan = plan
        self._drawn = frozenset(drawn_pairs(plan))
        self._number = 0
        self._labelled = 0
        self._waiting: list[float] = []
        """Gains of the drawn pairs without both labels since the last labelled pair, as the claim
        "better" counts them."""
        self._missing = 0
        """Drawn pairs without both labels before the last labelled pair."""

    def observe(self, pair: PairedScore) -> None:
        """Add the next pair of the experiment."""
        if self._number in self._drawn:
            before, after = pair.labels or (None, None)
            if before is None or after is None:
                self._waiting.append(gain_against_better(before, after))
            else:
                for gain in self._waiting:
                    if self._plan.missing == "worst":
                        self.process.observe(gain)
                    else:
                        self.process.skip()
                self._missing += len(self._waiting)
                self._waiting.clear()
                self._labelled += 1
                self.process.observe(after - before)
        self._number += 1

    @property
    def confirmed(self) -> bool:
        """Whether the labels prove a gain."""
        skips = self._plan.missing == "skip"
        if skips and self._missing > SKIP_LIMIT * (self._missing + self._labelled):
            return False
        return self.process.reached

    @property
    def waiting(self) -> int:
        """Number of drawn pairs that may still be labelled; 0 once nothing more is needed."""
        if self.confirmed:
            return 0
        return self._plan.labels - self._labelled - self._missing

    def result(self, pairs: Sequence[PairedScore]) -> LabelledGain:
        """The result of the labels.

        Args:
            pairs: The pairs of the experiment, as observed.
        """
        labels: list[float] = []
        scores: list[float] = []
        unlabelled_scores: list[float] = []
        for pair in pairs:
            score = None
            if pair.baseline is not None and pair.candidate is not None:
                score = pair.candidate - pair.baseline
            before, after = pair.labels or (None, None)
            if before is not None and after is not None and score is not None:
                labels.append(after - before)
                scores.append(score)
            elif score is not None:
                unlabelled_scores.append(score)
        gain = interval = bias = None
        if len(labels) >= 2:
            estimate = predicted_mean(labels, scores, unlabelled_scores)
            gain, bias = round(estimate.value, SHOWN_DIGITS), round(estimate.bias, SHOWN_DIGITS)
            interval = (round(estimate.low, SHOWN_DIGITS), round(estimate.high, SHOWN_DIGITS))
        return LabelledGain(
            wanted=self._plan.labels,
            labelled=self._labelled,
            missing=self._missing,
            e_value=self.process.peak,
            confirmed=self.confirmed,
            gain=gain,
            interval=interval,
            judge_bias=bias,
        )
