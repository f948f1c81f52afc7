"""Labels and judges in simulation: intervals by both, and decisions by a biased judge.

Intervals: label and score are normal with correlation 0.73; 50 labels are drawn from 1,000 cases.

Decisions: experiments of 400 pairs whose scores are a judge's that favours the candidate by 0.05.
People's labels are right or wrong, and so are the answers; the judge agrees with nine tenths of
them. Without a true gain each promotion is false. It is one `Comparison`, as `improve` makes it.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from ratchet.prove import Comparison, ExperimentPlan, PairedScore, drawn_pairs
from ratchet.stats.ppi import predicted_mean

LABELS, CASES = 50, 1_000
CORRELATION = 0.73
PAIRS, BIAS, ALPHA = 400, 0.05, 0.05
LABELLED_PAIRS = 50
"""Pairs that are labelled: two answers each, so 100 labels."""


def measure(quick: bool = False, seed: int = 0) -> dict[str, float]:
    """Measure it.

    Args:
        quick: Few runs, in seconds.
        seed: Seed of the simulation.

    Returns:
        ppi_coverage: share of 95 % intervals that contain the mean; ppi_width: mean width divided
        by that of the labels alone; ppi_runs. biased_judge_promoted: share of experiments without
        a gain that the judge alone would promote; biased_judge_withheld: share of those that are
        withheld without labels; biased_judge_false_promotions with 100 labels;
        biased_judge_power: share of promotions with 100 labels and a true gain of 0.15;
        biased_judge_runs.
    """
    rng = np.random.default_rng(seed)
    runs = 400 if quick else 8_000
    covered, widths = 0, 0.0
    for _ in range(runs):
        label = rng.normal(size=CASES)
        score = CORRELATION * label + sqrt(1.0 - CORRELATION**2) * rng.normal(size=CASES)
        found = predicted_mean(
            label[:LABELS].tolist(), score[:LABELS].tolist(), score[LABELS:].tolist()
        )
        covered += found.low <= 0.0 <= found.high
        low, high = found.classical
        widths += (found.high - found.low) / (high - low)
    return {
        "ppi_coverage": round(covered / runs, 4),
        "ppi_width": round(widths / runs, 4),
        "ppi_runs": runs,
        **_decisions(np.random.default_rng([seed, 1]), 100 if quick else 2_000),
    }


def _decisions(rng: np.random.Generator, runs: int) -> dict[str, float]:
    alone = ExperimentPlan(alpha=ALPHA, max_pairs=PAIRS)
    audited = ExperimentPlan(alpha=ALPHA, max_pairs=PAIRS, labels=LABELLED_PAIRS)
    promoted = withheld = false = found = 0
    for _ in range(runs):
        pairs, labels = _pairs(rng, 0.0)
        promoted += _verdict(alone, pairs, None) == "promote"
        without = _verdict(audited, pairs, None)
        assert without != "promote"
        withheld += without == "unconfirmed"
        false += _verdict(audited, pairs, labels) == "promote"
        found += _verdict(audited, *_pairs(rng, 0.15)) == "promote"
    return {
        "biased_judge_promoted": round(promoted / runs, 4),
        "biased_judge_withheld": round(withheld / runs, 4),
        "biased_judge_false_promotions": round(false / runs, 4),
        "biased_judge_power": round(found / runs, 4),
        "biased_judge_runs": runs,
    }


Pairs = list[tuple[float, float]]


def _pairs(rng: np.random.Generator, gain: float) -> tuple[Pairs, Pairs]:
    """The judge's scores and the labels of all pairs; a third of the answers differ."""
    before = rng.random(PAIRS) < 0.5
    after = np.where(rng.random(PAIRS) < 1 / 3, rng.random(PAIRS) < 0.5 + 3 * gain, before)
    scores = [np.where(rng.random(PAIRS) < 0.9, side, ~side) for side in (before, after)]
    # A share of the wrong ones becomes right, so that the mean rises by the bias.
    scores[1] |= rng.random(PAIRS) < BIAS / (1.0 - scores[1].mean())
    judged = np.stack(scores, axis=1).astype(float).tolist()
    return judged, np.stack([before, after], axis=1).astype(float).tolist()


def _verdict(plan: ExperimentPlan, pairs: Pairs, labels: Pairs | None) -> str:
    comparison = Comparison(plan)
    drawn = frozenset(drawn_pairs(plan))
    for number, (before, after) in enumerate(pairs):
        known = tuple(labels[number]) if labels and number in drawn else None
        if comparison.observe(PairedScore(str(number), before, after, labels=known)) is not None:
            break
    return comparison.finish()


if __name__ == "__main__":
    print(measure())
