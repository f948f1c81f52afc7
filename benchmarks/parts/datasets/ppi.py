"""Intervals by labels and a judge: coverage and width, in simulated data sets.

Label and score are normal with correlation 0.73; 50 labels are drawn from 1,000 cases.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from ratchet.stats.ppi import predicted_mean

LABELS, CASES = 50, 1_000
CORRELATION = 0.73


def measure(quick: bool = False, seed: int = 0) -> dict[str, float]:
    """Measure it.

    Args:
        quick: Few runs, in seconds.
        seed: Seed of the simulation.

    Returns:
        ppi_coverage: share of 95 % intervals that contain the mean; ppi_width: mean width divided
        by that of the labels alone; ppi_runs.
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
    }


if __name__ == "__main__":
    print(measure())
