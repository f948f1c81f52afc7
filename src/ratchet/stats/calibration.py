"""Calibration: maps scores to the labels' scale, by isotonic regression or Platt's curve."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import exp, log

from ratchet.types import InputError

MIN_FOR_ISOTONIC = 200
"""Labels from which isotonic regression is used; with fewer it fits noise (Niculescu-Mizil and
Caruana, ICML 2005, who put the border at 200 to 1,000)."""

CURVE_POINTS = 21
"""Points of the piecewise linear form of a logistic curve."""

Curve = tuple[tuple[float, float], ...]
"""Points (score, label), by score; linear between them, constant beyond the ends."""


def calibrated(scores: Sequence[float], labels: Sequence[float]) -> Curve:
    """The curve that maps scores to labels: isotonic with many labels, else Platt's.

    Args:
        scores: Scores in [0, 1].
        labels: Labels in [0, 1] of the same cases.

    Raises:
        InputError: The lists are empty or differ in length.
    """
    fit = isotonic if len(scores) >= MIN_FOR_ISOTONIC else platt
    return fit(scores, labels)


def isotonic(scores: Sequence[float], labels: Sequence[float]) -> Curve:
    """The non-decreasing curve of least squares, by pooling adjacent violators.

    Raises:
        InputError: The lists are empty or differ in length.
    """
    _check(scores, labels)
    blocks: list[list[float]] = []  # sum of labels, number, lowest and highest score
    for score, label in sorted(zip(scores, labels, strict=True)):
        if blocks and blocks[-1][3] == score:  # ties have one value
            blocks[-1][0] += label
            blocks[-1][1] += 1
        else:
            blocks.append([label, 1, score, score])
        # Equal scores may still follow, so only finished blocks are compared in the next loop.
    pooled: list[list[float]] = []
    for block in blocks:
        pooled.append(block)
        while len(pooled) > 1 and pooled[-2][0] * pooled[-1][1] >= pooled[-1][0] * pooled[-2][1]:
            total, count, _, high = pooled.pop()
            pooled[-1][0] += total
            pooled[-1][1] += count
            pooled[-1][3] = high
    points: list[tuple[float, float]] = []
    for total, count, low, high in pooled:
        points += (
            [(low, total / count)] if low == high else [(low, total / count), (high, total / count)]
        )
    return tuple(points)


def platt(scores: Sequence[float], labels: Sequence[float]) -> Curve:
    """Platt's logistic curve, as points at even distances.

    The labels are smoothed as by Platt ("Probabilistic outputs for support vector machines", 1999),
    so that separable data has a finite fit. A falling fit is replaced by the mean label: a judge
    that is wrong more often the higher it scores is not to be trusted in reverse.

    Raises:
        InputError: The lists are empty or differ in length.
    """
    _check(scores, labels)
    positives = sum(labels)
    negatives = len(labels) - positives
    high, low = (positives + 1.0) / (positives + 2.0), 1.0 / (negatives + 2.0)
    targets = [low + y * (high - low) for y in labels]
    slope, offset = 0.0, log((positives + 1.0) / (negatives + 1.0))
    for _ in range(100):
        # Newton's method, damped by a small ridge.
        g1 = g0 = h11 = h10 = h00 = 0.0
        for score, target in zip(scores, targets, strict=True):
            p = _sigmoid(slope * score + offset)
            g1 += (p - target) * score
            g0 += p - target
            w = max(p * (1.0 - p), 1e-12)
            h11 += w * score * score
            h10 += w * score
            h00 += w
        h11, h00 = h11 + 1e-9, h00 + 1e-9
        determinant = h11 * h00 - h10 * h10
        if determinant <= 1e-15:
            break
        d1 = (h00 * g1 - h10 * g0) / determinant
        d0 = (h11 * g0 - h10 * g1) / determinant
        shrink = min(1.0, 10.0 / (abs(d1) + abs(d0) + 1e-12))
        slope, offset = slope - shrink * d1, offset - shrink * d0
        if abs(d1) + abs(d0) < 1e-9:
            break
    if slope <= 0.0:
        mean = positives / len(labels)
        return ((0.0, mean), (1.0, mean))
    at = [number / (CURVE_POINTS - 1) for number in range(CURVE_POINTS)]
    return tuple((x, _sigmoid(slope * x + offset)) for x in at)


def interpolated(curve: Curve | Sequence[tuple[float, float]], score: float) -> float:
    """The label that a curve gives for a score.

    Raises:
        InputError: The curve has no points.
    """
    if not curve:
        raise InputError("The calibration curve has no points.")
    if score <= curve[0][0]:
        return curve[0][1]
    for (x, y), (x1, y1) in pairwise(curve):
        if score <= x1:
            return y1 if x1 == x else y + (y1 - y) * (score - x) / (x1 - x)
    return curve[-1][1]


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + exp(-x)) if x >= 0 else exp(x) / (1.0 + exp(x))


def _check(scores: Sequence[float], labels: Sequence[float]) -> None:
    if not scores or len(scores) != len(labels):
        raise InputError(
            f"A calibration needs as many labels as scores: {len(labels)}, {len(scores)}."
        )
