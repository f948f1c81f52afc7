"""Agreement of scores with people's labels."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence

import msgspec

from ratchet.stats.proportion import wilson


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """Agreement of verdicts with labels; a verdict is whether a score is at least a cut."""

    n: int
    kappa: float
    """Cohen's kappa; 0 is agreement by chance."""
    kappa_low: float
    kappa_high: float
    accuracy: float
    majority: float
    """Accuracy of the verdict that the majority of labels has, given to all."""
    positives: int
    negatives: int
    true_positives: int
    true_negatives: int
    auroc: float | None
    """Probability that a right output scores above a wrong one; None with labels of one class."""


def agreement(scores: Sequence[float], labels: Sequence[bool]) -> Agreement:
    """Agreement of scores with labels.

    Scores of 0 and 1 are verdicts. Graded ones become verdicts by a cut: that of each half of the
    labels is the one that agrees best with the other half.

    The interval of kappa is that of the observed agreement (Wilson), at the chance agreement of the
    sample: unlike the normal one it does not vanish when all verdicts agree.

    Args:
        scores: Scores in [0, 1].
        labels: Whether each output is right; as many.
    """
    verdicts = _verdicts(scores, labels)
    n, positives = len(labels), sum(labels)
    negatives = n - positives
    true_positives = sum(v and label for v, label in zip(verdicts, labels, strict=True))
    true_negatives = sum(not v and not label for v, label in zip(verdicts, labels, strict=True))
    agreed = true_positives + true_negatives
    passed = sum(verdicts)
    chance = (passed * positives + (n - passed) * negatives) / (n * n) if n else 1.0
    low, high = wilson(agreed, n)
    return Agreement(
        n=n,
        kappa=_kappa(agreed / n if n else 0.0, chance),
        kappa_low=_kappa(low, chance),
        kappa_high=_kappa(high, chance),
        accuracy=agreed / n if n else 0.0,
        majority=max(positives, negatives) / n if n else 0.0,
        positives=positives,
        negatives=negatives,
        true_positives=true_positives,
        true_negatives=true_negatives,
        auroc=auroc(scores, labels),
    )


def _verdicts(scores: Sequence[float], labels: Sequence[bool]) -> list[bool]:
    if all(score in (0.0, 1.0) for score in scores):
        return [score == 1.0 for score in scores]
    halves = (range(0, len(scores), 2), range(1, len(scores), 2))
    verdicts = [False] * len(scores)
    for own, other in (halves, halves[::-1]):
        cut = _best_cut([scores[n] for n in other], [labels[n] for n in other])
        for n in own:
            verdicts[n] = scores[n] >= cut
    return verdicts


def _best_cut(scores: Sequence[float], labels: Sequence[bool]) -> float:
    """The cut with the most agreement, halfway between two scores; of several the middle one."""
    known = sorted(set(scores))
    cuts = [0.0, *((a + b) / 2 for a, b in itertools.pairwise(known)), 1.0]
    agreed = [
        sum((score >= cut) == label for score, label in zip(scores, labels, strict=True))
        for cut in cuts
    ]
    best = [cut for cut, count in zip(cuts, agreed, strict=True) if count == max(agreed)]
    return best[len(best) // 2]


def auroc(scores: Sequence[float], labels: Sequence[bool]) -> float | None:
    """Area under the ROC curve, ties half (Mann and Whitney 1947); None with one class only."""
    wrong = sorted(s for s, label in zip(scores, labels, strict=True) if not label)
    right = [s for s, label in zip(scores, labels, strict=True) if label]
    if not wrong or not right:
        return None
    below = math.fsum(
        (bisect.bisect_left(wrong, s) + bisect.bisect_right(wrong, s)) / 2 for s in right
    )
    return below / (len(wrong) * len(right))


def _kappa(observed: float, chance: float) -> float:
    return 0.0 if chance >= 1.0 else (observed - chance) / (1.0 - chance)
