"""The inputs and results of a lab: its settings, evaluations and proposals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from ratchet.types import (
    TRAIN,
    Code,
    Cost,
    InputError,
    PromptTemplate,
    Resource,
    Rollout,
    Score,
    Span,
    Task,
    Transition,
)


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """A rollout of a candidate on a task, with its scores."""

    task: Task
    rollout: Rollout
    value: float | None
    """The objective's score; None if it is missing."""
    scores: dict[str, Score]
    """All scores by evaluator name."""

    @property
    def worth(self) -> float:
        """Its value in learning: a missing score counts as 0, so that a candidate gains nothing by
        breaking the evaluator."""
        return 0.0 if self.value is None else self.value


class RolloutTokens(NamedTuple):
    """The model calls of a rollout as tokens."""

    transitions: tuple[Transition, ...]
    rewards: dict[str, float]
    """Rewards of single calls by transition id."""


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """An algorithm's report on a candidate that it has just judged, for progress and the record."""

    number: int
    candidate_id: str
    value: float
    """Mean objective over the tasks it ran."""
    tasks: int
    """Number of tasks it ran."""
    pruned: bool = False
    """Whether it was dropped before all train tasks were run."""
    best: float
    """Best value over all train tasks so far."""
    rollouts: int
    """Rollouts spent so far."""
    accepted: str = ""
    """Why it was accepted, as a sentence; empty if it was not."""
    refused: str = ""
    """The fault that the repository's own tests found in it; empty if none."""
    # The fields below are filled in by the lab.
    dollars: float = 0.0
    """Dollars spent so far, on rollouts and coach calls whose price is known."""
    unpriced: dict[str, int] = {}
    """Number of calls so far whose price is unknown, by model."""
    coach_calls: int = 0
    """Coach calls spent so far."""
    parents: tuple[str, ...] = ()
    """Ids of the candidates it was derived from."""
    algorithm: str = ""
    reason: str = ""
    """Why it was proposed, as a sentence."""
    failed: int = 0
    """Number of its rollouts that failed."""
    error: str = ""
    """The most frequent error of these rollouts, truncated."""
    low: float | None = None
    high: float | None = None
    """95 % interval of its mean over the train tasks it ran; None for fewer than two."""

    @property
    def cost(self) -> Cost:
        """Cost of rollouts and coach calls so far, in dollars."""
        return Cost(known_usd=self.dollars, unpriced=self.unpriced)


class LabSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a lab."""

    run_id: str
    stage: str
    """Prefix of the purpose of its rollouts."""
    queue: str
    objective: str
    """Name of the evaluator, or of the agent's own reward, to maximise."""
    seed: int
    max_attempts: int
    again: int = 0
    """Number of restarts because the agent had failed on every task."""
    earlier: tuple[LabSettings, ...] = ()
    """Labs of earlier runs of the same agent, oldest first: what the baseline ran there is not run
    and paid for again."""
    part: str = ""
    """Prefix of the names of steps in a part of the lab: `STEP/` for each level."""

    def rollout(
        self, task: Task, candidate_id: str, repetition: int, *, training: str = ""
    ) -> Rollout:
        """The rollout of a candidate on a task; each repetition is a separate rollout.

        A rollout that trains a model, in the batch `training`, differs from one that measures: it
        samples the model's own distribution.
        """
        purpose = f"{TRAIN}/{self.run_id}/{self.part}{training}" if training else ""
        return Rollout.of(
            task,
            candidate_id,
            scope=[self.run_id, self.again, repetition, *([TRAIN] if training else [])],
            seed_parts=[self.seed, repetition],
            queue=self.queue,
            purpose=purpose or f"{self.stage}/{self.run_id}",
            max_attempts=self.max_attempts,
        )


FAILED_STATUSES = ("failed", "timed_out", "crashed")
"""Rollout statuses that count as the agent's failure."""


def objective_value(rollout: Rollout, scores: Mapping[str, Score], objective: str) -> float | None:
    """The objective's value for a rollout: 0 if the agent failed, None if it is unknown."""
    if rollout.status in FAILED_STATUSES:
        return 0.0  # overrides a reward that the agent reported before it failed
    score = scores.get(objective)
    return score.value if score is not None and rollout.status == "succeeded" else None


def failure_sentence(rollout: Rollout, spans: Iterable[Span]) -> str:
    """A failed rollout's error, with that of the failed model call, which many programs do not
    print.
    """
    messages = (
        span.message
        for span in spans
        if span.status == "error" and "gen_ai.request.model" in span.attributes
    )
    call = next((message for message in messages if message and message not in rollout.error), "")
    return f"{rollout.error} A model call failed: {call}" if call else rollout.error


def scores_of(evaluations: Sequence[Evaluation]) -> dict[str, float]:
    """Scores by task id; a missing score counts as 0."""
    return {evaluation.task.id: evaluation.worth for evaluation in evaluations}


def require_scores(evaluations: Iterable[Evaluation], split: str) -> None:
    """Refuse to learn if nothing has a score: only missing scores would count.

    Raises:
        InputError: No evaluation has a score.
    """
    if all(evaluation.value is None for evaluation in evaluations):
        raise InputError(
            f"No {split} task has a score: the objective's evaluator failed on every rollout.",
            hint="See why: ratchet eval.",
        )


def mean(evaluations: Sequence[Evaluation]) -> float:
    """Mean objective of at least one evaluation; a missing score counts as 0."""
    return math.fsum(evaluation.worth for evaluation in evaluations) / len(evaluations)


def texts_of(resources: Mapping[str, Resource]) -> dict[str, str]:
    """The texts among resources: prompt templates and function sources."""
    texts: dict[str, str] = {}
    for name, resource in resources.items():
        if isinstance(resource, PromptTemplate):
            texts[name] = resource.text
        elif isinstance(resource, Code):
            texts[name] = resource.source
    return texts
