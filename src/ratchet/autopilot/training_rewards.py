"""Rollouts that a model learns from: each gets a reward, even without a score."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ratchet.learn import BudgetExhausted, Evaluation, Lab
from ratchet.types import Candidate, Task

MAX_ATTEMPTS = 2
"""How often a rollout without a score is repeated: the outage that spoilt it may be over."""


async def evaluate_to_train(
    lab: Lab,
    candidate: Candidate,
    tasks: Sequence[Task],
    *,
    repetition: int,
    training: str = "",
) -> list[Evaluation]:
    """Roll out a candidate on tasks, and repeat those without a score within the budget.

    Args:
        lab: The lab.
        candidate: The candidate.
        tasks: The tasks.
        repetition: Index of the repetition, from 0.
        training: Name of the batch; see `Lab.evaluate`.

    Raises:
        BudgetExhausted: The budget does not cover one rollout of each task.
    """
    evaluations = await lab.evaluate(candidate, tasks, repetition=repetition, training=training)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        spoilt = [at for at, evaluation in enumerate(evaluations) if evaluation.value is None]
        if not spoilt:
            break
        try:
            again = await lab.evaluate(
                candidate,
                [tasks[at] for at in spoilt],
                repetition=-(
                    MAX_ATTEMPTS * repetition + attempt
                ),  # below 0: no other has this index
                training=training,
            )
        except BudgetExhausted:
            break
        for at, evaluation in zip(spoilt, again, strict=True):
            evaluations[at] = evaluation
    return evaluations


def rewards(evaluations: Sequence[Evaluation]) -> list[float]:
    """The reward of each rollout of a batch; one without a finite score gets the lowest."""
    scores = [evaluation.value for evaluation in evaluations]
    finite = [value for value in scores if value is not None and math.isfinite(value)]
    lowest = min(0.0, *finite) if finite else 0.0
    return [value if value is not None and math.isfinite(value) else lowest for value in scores]
