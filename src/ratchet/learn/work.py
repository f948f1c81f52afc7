"""What a lab works on and what comes out of it: evaluations, and proposals with their worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from ratchet.types import Candidate, Cost, Rollout, Score, Task


class RolloutRunner(Protocol):
    """Runs rollouts to their ends; a Runner does."""

    async def run(
        self,
        rollouts: Sequence[Rollout],
        candidates: Sequence[Candidate],
        on_finish: Callable[[Rollout], None] | None = None,
    ) -> dict[str, Rollout]:
        """Ended rollouts by id."""
        ...


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """One rollout of a candidate on a task, scored."""

    task: Task
    rollout: Rollout
    value: float | None
    """The objective's score; None when the evaluator could not say."""
    scores: dict[str, Score]
    """All scores by evaluator name."""


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """What an algorithm says of a candidate it has just judged, for progress and the record."""

    number: int
    candidate_id: str
    value: float
    """Mean objective over the tasks it was judged on."""
    tasks: int
    """How many those were."""
    pruned: bool = False
    """Given up before all train tasks were tried."""
    best: float
    """Best value over all train tasks so far."""
    rollouts: int
    """Rollouts spent so far."""
    accepted: str = ""
    """Why it was kept, in a sentence; empty when it was not."""
    refused: str = ""
    """What its repository's own tests found wrong with it; empty when nothing."""
    # What follows, the lab fills in.
    dollars: float = 0.0
    """Dollars spent so far, on rollouts and coach calls whose price is known."""
    unpriced: dict[str, int] = {}
    """Number of calls so far whose price is unknown, by model."""
    coach_calls: int = 0
    """Coach calls spent so far."""
    parents: tuple[str, ...] = ()
    """Ids of the candidates it was made from."""
    algorithm: str = ""
    reason: str = ""
    """Why it was proposed, in a sentence."""
    failed: int = 0
    """How many of its rollouts failed."""
    error: str = ""
    """What most of those said, cut."""
    low: float | None = None
    high: float | None = None
    """95 % interval of its mean over the train tasks it was tried on; None for fewer than two."""

    @property
    def cost(self) -> Cost:
        """Dollars of rollouts and coach calls so far."""
        return Cost(known_usd=self.dollars, unpriced=self.unpriced)


class LabSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a lab works on."""

    run_id: str
    stage: str
    """Prefix of the purpose of its rollouts."""
    queue: str
    objective: str
    """Name of the evaluator, or of the agent's own reward, that is to rise."""
    seed: int
    max_attempts: int
    again: int = 0
    """How often the run began anew because the agent had failed on everything."""
    part: str = ""
    """Path of a part of the lab, `STEP/` for each level, put before the names of its steps."""

    def rollout(self, task: Task, candidate_id: str, repetition: int) -> Rollout:
        """The rollout of a candidate on a task; another repetition is another rollout."""
        return Rollout.of(
            task,
            candidate_id,
            scope=[self.run_id, self.again, repetition],
            seed_parts=[self.seed, repetition],
            queue=self.queue,
            purpose=f"{self.stage}/{self.run_id}",
            max_attempts=self.max_attempts,
        )


FAILURES = ("failed", "timed_out", "crashed")
"""Statuses of rollouts that the agent is to blame for."""


def objective_value(rollout: Rollout, scores: Mapping[str, Score], objective: str) -> float | None:
    """The objective's value for a rollout: 0 when the agent failed, None when it is unknown."""
    if rollout.status in FAILURES:
        return 0.0  # whatever reward it gave itself before
    score = scores.get(objective)
    return score.value if score is not None and rollout.status == "succeeded" else None


def scores_of(evaluations: Sequence[Evaluation]) -> dict[str, float]:
    """Scores by task id, of the evaluations that have one."""
    return {e.task.id: e.value for e in evaluations if e.value is not None}


def mean(evaluations: Sequence[Evaluation]) -> float | None:
    """Mean objective over the evaluations that have one; None when none has."""
    values = [e.value for e in evaluations if e.value is not None]
    return sum(values) / len(values) if values else None
