"""The number of tasks that a proof takes suffices for it, and is not far too large."""

from __future__ import annotations

import random

import pytest

from ratchet.prove.tasks_needed import tasks_needed
from ratchet.stats.eprocess import EProcess


@pytest.mark.parametrize(
    ("alpha", "gain", "variance"),
    [(0.0146, 0.1, 0.05), (0.0146, 0.3, 0.2), (0.05, 0.2, 0.25), (0.003, 0.3, 0.2), (0.05, 0.3, 0)],
)
def test_with_so_many_tasks_the_gain_is_mostly_proved_and_with_a_third_it_is_not(
    alpha: float, gain: float, variance: float
) -> None:
    tasks = tasks_needed(alpha, gain, variance)
    assert _proved(alpha, gain, variance, tasks) >= 0.75
    assert _proved(alpha, gain, variance, tasks // 3) <= 0.5


def test_more_noise_a_smaller_gain_and_a_stricter_level_take_more_tasks() -> None:
    usual = tasks_needed(0.05, 0.1, 0.1)
    assert tasks_needed(0.05, 0.1, 0.2) > usual
    assert tasks_needed(0.05, 0.05, 0.1) > usual
    assert tasks_needed(0.01, 0.1, 0.1) > usual


def _proved(alpha: float, gain: float, variance: float, tasks: int) -> float:
    """Share of simulated experiments that reach the level."""
    rng = random.Random(1)
    proved = 0
    for _ in range(60):
        process = EProcess(threshold=1.0 / alpha, horizon=tasks)
        for _ in range(tasks):
            process.observe(max(-1.0, min(1.0, rng.gauss(gain, variance**0.5))))
        proved += process.reached
    return proved / 60
