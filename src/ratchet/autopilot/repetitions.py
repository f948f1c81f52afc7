"""Plans how often each test task is run: as configured, or from a pilot on the val tasks."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal

import msgspec

from ratchet.learn import Budget, BudgetExhausted, Evaluation, Lab
from ratchet.prove import (
    ExperimentPlan,
    PilotTask,
    RepetitionPlan,
    choose_repetitions,
    may_repeat,
)
from ratchet.prove.missing import gain_against_better
from ratchet.types import Candidate, total_cost

PILOT_TASKS = 100
"""Maximum number of val tasks of a pilot."""

MAX_AUTO = 32
"""Maximum number of repetitions by `auto`, whatever the budget."""


async def plan_repetitions(
    plan: ExperimentPlan,
    wanted: int | Literal["auto"],
    *,
    lab: Lab,
    candidate: Candidate,
    dollars: float | None,
    judged_usd: float = 0.0,
) -> RepetitionPlan:
    """How often each test task is run with each candidate.

    `auto` reads and runs val tasks only: what the test tasks will bring has no influence. Rollouts
    of learning are reused; new are those of the baseline's second run on the tasks of the pilot,
    where they can matter. The experiment may take as many rollouts and seconds as learning may, and
    what is left of the dollars.

    Args:
        plan: The experiment's plan.
        wanted: The configured number, or `auto`.
        lab: A lab in which nothing has been spent, of the run's own journal and rollouts.
        candidate: The candidate to be proved.
        dollars: What is left of the budget; None if dollars are not limited.
        judged_usd: Dollars that the judges of one rollout cost.
    """
    if wanted != "auto":
        return RepetitionPlan(wanted, f"repetitions = {wanted} under [prove]")
    budget = msgspec.structs.replace(lab.budget, dollars=dollars)
    most = _affordable(budget, (), judged_usd, 2 * plan.max_pairs, lab.concurrency)
    if most < 2:
        return RepetitionPlan()
    tasks = list(lab.val)
    random.Random(lab.seed).shuffle(tasks)  # noqa: S311 - reproducible, not secret
    tasks = tasks[:PILOT_TASKS]
    try:
        before = await lab.evaluate(lab.baseline, tasks)
        after = await lab.evaluate(candidate, tasks)
        most = _affordable(
            budget,
            [*before, *after],
            judged_usd,
            2 * plan.max_pairs,
            lab.concurrency,
            ahead=len(tasks),
        )
        differences = [
            gain_against_better(baseline.value, changed.value)
            for baseline, changed in zip(before, after, strict=True)
        ]
        if not may_repeat(plan, differences, most):
            return RepetitionPlan()
        again = await lab.evaluate(lab.baseline, tasks, repetition=1)
    except BudgetExhausted:
        return RepetitionPlan()
    pilot = [
        PilotTask((_missing_is_1(first), _missing_is_1(second)), changed.worth)
        for first, second, changed in zip(before, again, after, strict=True)
    ]
    return choose_repetitions(plan, pilot, most)


def _missing_is_1(evaluation: Evaluation) -> float:
    """The baseline's score as the experiment will count it."""
    return 1.0 if evaluation.value is None else evaluation.value


def _affordable(
    budget: Budget,
    evaluations: Sequence[Evaluation],
    judged_usd: float,
    rollouts: int,
    slots: int,
    *,
    ahead: int = 0,
) -> int:
    """Number of repetitions that the budget covers, from the cost of known rollouts.

    The `ahead` other rollouts are paid for first.
    """
    limits = [float(MAX_AUTO)]
    if budget.rollouts is not None:
        limits.append(budget.rollouts / rollouts)
    if evaluations and budget.dollars is not None:
        dollars = total_cost(evaluation.rollout.cost for evaluation in evaluations).usd
        if dollars is None:
            return 1  # an unknown price is within no budget
        rollout_usd = dollars / len(evaluations) + judged_usd
        if rollout_usd > 0.0:
            limits.append((budget.dollars - ahead * rollout_usd) / (rollouts * rollout_usd))
    seconds = sum(evaluation.rollout.duration_s or 0.0 for evaluation in evaluations)
    if budget.seconds is not None and seconds > 0.0:
        limits.append(budget.seconds / (rollouts * seconds / len(evaluations) / slots))
    return max(1, int(min(limits)))
