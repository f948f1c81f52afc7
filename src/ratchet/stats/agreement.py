"""Agreement of scores with labels: kappa, confusion, AUROC and calibration, with intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

import msgspec

from ratchet.types import InputError
from ratchet.types.wording import counted

CONFIDENCE_LEVEL = 0.95
"""Default level of confidence intervals."""


class IntervalEstimate(msgspec.Struct, frozen=True):
    """A number with its confidence interval."""

    value: float
    low: float
    high: float
    n: int
    """Number of cases that it rests on."""


class Confusion(NamedTuple):
    """How binary verdicts fall on binary labels."""

    true_positives: int
    false_positives: int
    false_negatives: int
    true_negatives: int

    @property
    def n(self) -> int:
        """Number of cases."""
        return sum(self)

    @property
    def accuracy(self) -> float | None:
        """Share of right verdicts; None without cases."""
        return (self.true_positives + self.true_negatives) / self.n if self.n else None

    @property
    def majority(self) -> float | None:
        """Accuracy of always answering with the more frequent label; None without cases."""
        positives = self.true_positives + self.false_negatives
        return max(positives, self.n - positives) / self.n if self.n else None

    def true_positive_rate(self, level: float = CONFIDENCE_LEVEL) -> IntervalEstimate | None:
        """Share of the right ones that are found right; None when there are none."""
        return share(self.true_positives, self.true_positives + self.false_negatives, level)

    def true_negative_rate(self, level: float = CONFIDENCE_LEVEL) -> IntervalEstimate | None:
        """Share of the wrong ones that are found wrong; None when there are none."""
        return share(self.true_negatives, self.true_negatives + self.false_positives, level)


class CalibrationBin(msgspec.Struct, frozen=True):
    """Cases with similar scores, and how many of them are right."""

    score: float
    """Their mean score."""
    label: IntervalEstimate
    """Their mean label, with a Wilson interval."""


def wilson(successes: float, n: float, level: float = CONFIDENCE_LEVEL) -> tuple[float, float]:
    """Wilson's interval of a proportion (Wilson, JASA 1927).

    Args:
        successes: Number of successes; may be fractional, as in a sum of values in [0, 1], for
            which the interval is conservative.
        n: Number of trials.
        level: Confidence level.

    Raises:
        InputError: There are no trials, or not between 0 and `n` successes.
    """
    if n <= 0 or not 0.0 <= successes <= n:
        raise InputError(f"{successes:g} of {n:g} is not a proportion.")
    z = NormalDist().inv_cdf(0.5 + level / 2.0)
    share, square = successes / n, z * z
    middle = (share + square / (2.0 * n)) / (1.0 + square / n)
    half = z / (1.0 + square / n) * sqrt(share * (1.0 - share) / n + square / (4.0 * n * n))
    low = 0.0 if successes == 0 else middle - half
    high = 1.0 if successes == n else middle + half
    return max(0.0, low), min(1.0, high)


def share(successes: float, n: int, level: float = CONFIDENCE_LEVEL) -> IntervalEstimate | None:
    """A proportion with Wilson's interval; None without trials."""
    return IntervalEstimate(successes / n, *wilson(successes, n, level), n) if n else None


def confusion(verdicts: Sequence[bool], labels: Sequence[bool]) -> Confusion:
    """Count how verdicts fall on labels.

    Raises:
        InputError: The lists differ in length.
    """
    _same_length(verdicts, labels)
    counts = Counter((bool(v), bool(y)) for v, y in zip(verdicts, labels, strict=True))
    return Confusion(
        counts[True, True], counts[True, False], counts[False, True], counts[False, False]
    )


def kappa(
    first: Sequence[Hashable], second: Sequence[Hashable], level: float = CONFIDENCE_LEVEL
) -> IntervalEstimate | None:
    """Cohen's kappa: agreement beyond chance of two raters, 1 if perfect and 0 if by chance.

    The interval uses the large-sample standard error of Fleiss, Cohen and Everitt (Psychological
    Bulletin 1969). With perfect or no agreement that error is 0; then the end of the interval is
    that of the observed agreement by Wilson, at the same chance agreement.

    Args:
        first: Category of each case by one rater.
        second: Category of each case by the other.
        level: Confidence level.

    Returns:
        The estimate; None when it is undefined: no cases, or both raters use one category only.

    Raises:
        InputError: The lists differ in length.
    """
    _same_length(first, second)
    n = len(first)
    if n == 0:
        return None
    rows, columns = Counter(first), Counter(second)
    cells = Counter(zip(first, second, strict=True))
    categories = rows.keys() | columns.keys()
    agreed = sum(cells[c, c] for c in categories) / n
    chance = sum(rows[c] * columns[c] for c in categories) / n**2
    if chance >= 1.0:
        return None
    value = (agreed - chance) / (1.0 - chance)
    diagonal = sum(
        cells[c, c] / n * (1.0 - (rows[c] + columns[c]) / n * (1.0 - value)) ** 2
        for c in categories
    )
    beside = (1.0 - value) ** 2 * sum(
        count / n * ((columns[a] + rows[b]) / n) ** 2 for (a, b), count in cells.items() if a != b
    )
    spread = diagonal + beside - (value - chance * (1.0 - value)) ** 2
    error = sqrt(max(0.0, spread) / n) / (1.0 - chance)
    if agreed in (0.0, 1.0):
        low, high = ((end - chance) / (1.0 - chance) for end in wilson(agreed * n, n, level))
    else:
        z = NormalDist().inv_cdf(0.5 + level / 2.0)
        low, high = value - z * error, value + z * error
    return IntervalEstimate(value, max(-1.0, low), min(1.0, high), n)


def auroc(
    scores: Sequence[float], labels: Sequence[bool], level: float = CONFIDENCE_LEVEL
) -> IntervalEstimate | None:
    """Probability that a right case has a higher score than a wrong one, ties counting one half.

    The variance is DeLong's (Biometrics 1988). The interval is Wilson's for a proportion with that
    variance, so that it stays in [0, 1] and has a width when the estimate is 0 or 1.

    Returns:
        The estimate; None when all labels are equal.

    Raises:
        InputError: The lists differ in length.
    """
    _same_length(scores, labels)
    right = [s for s, y in zip(scores, labels, strict=True) if y]
    wrong = [s for s, y in zip(scores, labels, strict=True) if not y]
    if not right or not wrong:
        return None
    of_right = [r / len(wrong) for r in _wins(right, wrong)]
    of_wrong = [r / len(right) for r in _wins([-s for s in wrong], [-s for s in right])]
    value = sum(of_right) / len(right)
    variance = _variance(of_right) / len(right) + _variance(of_wrong) / len(wrong)
    fewer = min(len(right), len(wrong))
    n = value * (1.0 - value) / variance if variance > 0.0 else float(fewer)
    return IntervalEstimate(value, *wilson(value * n, n, level), len(scores))


def calibration_curve(
    scores: Sequence[float],
    labels: Sequence[float],
    bins: int = 10,
    level: float = CONFIDENCE_LEVEL,
) -> tuple[CalibrationBin, ...]:
    """The reliability diagram: mean label by score, in bins with about equally many cases.

    Cases with equal scores share a bin, so a judge with few distinct scores has few bins.

    Args:
        scores: Scores in [0, 1].
        labels: Labels in [0, 1].
        bins: Largest number of bins.
        level: Confidence level of each bin.

    Raises:
        InputError: The lists differ in length.
    """
    _same_length(scores, labels)
    cases = sorted(zip(scores, labels, strict=True))
    size = max(1, -(-len(cases) // bins))
    binned: list[list[tuple[float, float]]] = []
    for case in cases:
        if binned and (len(binned[-1]) < size or binned[-1][-1][0] == case[0]):
            binned[-1].append(case)
        else:
            binned.append([case])
    return tuple(
        CalibrationBin(
            sum(s for s, _ in group) / len(group),
            IntervalEstimate(
                sum(y for _, y in group) / len(group),
                *wilson(sum(y for _, y in group), len(group), level),
                len(group),
            ),
        )
        for group in binned
    )


def calibration_error(curve: Sequence[CalibrationBin]) -> float | None:
    """Expected calibration error: mean distance of score and label, weighted by cases.

    Returns:
        A number in [0, 1]; None for an empty curve.
    """
    n = sum(point.label.n for point in curve)
    if not n:
        return None
    return sum(abs(point.score - point.label.value) * point.label.n for point in curve) / n


def _wins(of: Sequence[float], against: Sequence[float]) -> list[float]:
    """For each value, how many of the others it exceeds; ties count one half."""
    from bisect import bisect_left, bisect_right

    ordered = sorted(against)
    return [(bisect_left(ordered, v) + bisect_right(ordered, v)) / 2.0 for v in of]


def _variance(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    mean = sum(values) / len(values)
    return sum((v - mean) ** 2 for v in values) / (len(values) - 1)


def _same_length(first: Sequence[object], second: Sequence[object]) -> None:
    if len(first) != len(second):
        raise InputError(
            f"There are {counted(len(first), 'score')} and {counted(len(second), 'label')}."
        )
