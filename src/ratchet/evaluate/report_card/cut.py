"""Turns graded scores into verdicts: the minimum score to pass."""

from __future__ import annotations

import itertools
from collections.abc import Sequence


def verdicts_of(scores: Sequence[float], labels: Sequence[bool]) -> list[bool]:
    """Whether each output passes.

    Scores of 0 and 1 are verdicts. Graded ones become verdicts by a cut: that of each half of the
    outputs is the one that agrees best with the labels of the other half.

    Args:
        scores: Scores in [0, 1].
        labels: Whether each output is right; as many.
    """
    if all(score in (0.0, 1.0) for score in scores):
        return [score == 1.0 for score in scores]
    halves = (range(0, len(scores), 2), range(1, len(scores), 2))
    verdicts = [False] * len(scores)
    for own, reference in (halves, halves[::-1]):
        cut = _best_cut([scores[n] for n in reference], [labels[n] for n in reference])
        for n in own:
            verdicts[n] = scores[n] >= cut
    return verdicts


def _best_cut(scores: Sequence[float], labels: Sequence[bool]) -> float:
    """The cut with the most agreement, halfway between two scores; of equal cuts, the middle."""
    levels = sorted(set(scores))
    cuts = [0.0, *((a + b) / 2 for a, b in itertools.pairwise(levels)), 1.0]
    agreed = [
        sum((score >= cut) == label for score, label in zip(scores, labels, strict=True))
        for cut in cuts
    ]
    best = [cut for cut, count in zip(cuts, agreed, strict=True) if count == max(agreed)]
    return best[len(best) // 2]
