"""Runs and scores candidates on tasks outside learning, for `ratchet run` and `ratchet eval`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from ratchet.evaluate import Evaluator, Scorer
from ratchet.llm import ACCOUNT
from ratchet.run import Runner
from ratchet.run.paid import PaidRunner
from ratchet.store import Store
from ratchet.types import Candidate, Rollout, Score, Task


class Batch(msgspec.Struct, frozen=True):
    """A candidate's rollouts."""

    candidate: Candidate
    rows: tuple[tuple[Task, Rollout, dict[str, Score]], ...]
    """Each task with its rollout and its scores by evaluator, including rewards that the agent
    emits. Repetitions are adjacent."""


async def evaluate_batch(
    candidates: Sequence[Candidate],
    tasks: Sequence[Task],
    *,
    evaluators: Sequence[Evaluator],
    store: Store,
    runner: Runner,
    queue: str,
    attempts: int,
    repeat: int,
    fresh: bool,
    on_rollout: Callable[[Rollout], None],
) -> list[Batch]:
    """Run and score every candidate on every task.

    Args:
        candidates: The candidates, all different.
        tasks: The tasks.
        evaluators: The evaluators.
        store: Stores rollouts and scores.
        runner: Runs the rollouts.
        queue: The runner's queue; it identifies the version of the agent's source.
        attempts: Maximum attempts when the agent fails.
        repeat: Rollouts of each task.
        fresh: Ignore cached rollouts of the same source, candidate and task.
        on_rollout: Called as each rollout ends.

    Raises:
        BudgetExhausted: The account of this context does not cover it. What ended is kept.
    """
    now = time.time()
    for candidate in candidates:
        store.candidates.put(candidate, now)
    marker = f"{now}" if fresh else ""
    plan = {
        (candidate.id, task.id, repetition): Rollout.of(
            task,
            candidate.id,
            scope=[queue, repetition, marker],
            seed_parts=[repetition],
            queue=queue,
            purpose=queue.partition("-")[0],
            max_attempts=attempts,
        )
        for candidate in candidates
        for task in tasks
        for repetition in range(repeat)
    }
    account = ACCOUNT.get()
    paid = runner if account is None else PaidRunner(runner, account, store)
    ended = await paid.run(list(plan.values()), candidates, on_rollout)
    scored = await Scorer(store, evaluators).score(ended.values())
    wanted_names = {evaluator.name for evaluator in evaluators}
    scores = {
        id: {
            name: s
            for name, s in rollout_scores.items()
            if name in wanted_names or s.version == "agent"
        }
        for id, rollout_scores in scored.items()
    }
    return [
        Batch(
            candidate,
            tuple(
                (task, ended[rollout.id], scores[rollout.id])
                for task in tasks
                for repetition in range(repeat)
                if (rollout := plan[candidate.id, task.id, repetition])
            ),
        )
        for candidate in candidates
    ]
