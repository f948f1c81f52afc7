"""Turns two rollouts of a task, one with each candidate, into a pair of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ratchet.evaluate.failures import FAILURE_PREFIX, is_failure
from ratchet.learn import objective_value
from ratchet.learn.work import FAILED_STATUSES
from ratchet.prove import PairedScore
from ratchet.types import Rollout, Score

REASON_CHARACTERS = 200
"""Maximum length of a reason in the evidence, in characters."""


def paired_score(
    task_id: str,
    baseline: Rollout,
    candidate: Rollout,
    scores: Mapping[str, Mapping[str, Score]],
    *,
    objective: str,
    metrics: Sequence[str] = (),
) -> PairedScore:
    """The scores of both rollouts, with why one is missing.

    Args:
        task_id: The task.
        baseline: The baseline's rollout, ended.
        candidate: The candidate's rollout, ended.
        scores: Scores by rollout and evaluator.
        objective: The evaluator whose score is compared.
        metrics: Those of the guardrails.
    """
    before, after = scores[baseline.id], scores[candidate.id]
    sides = {"baseline": baseline, "candidate": candidate}
    return PairedScore(
        task_id=task_id,
        baseline=objective_value(baseline, before, objective),
        candidate=objective_value(candidate, after, objective),
        metrics={
            name: (_metric(name, baseline, before), _metric(name, candidate, after))
            for name in metrics
        },
        failed=tuple(name for name, side in sides.items() if side.status in FAILED_STATUSES),
        reasons={
            name: reason
            for name, side in sides.items()
            if (reason := _reason(side, scores[side.id].get(objective)))
        },
        baseline_rollout=baseline.id,
        candidate_rollout=candidate.id,
    )


def _reason(rollout: Rollout, score: Score | None) -> str:
    """Why a rollout has no score, or 0 because its answer broke the evaluator; empty otherwise."""
    if rollout.status in FAILED_STATUSES:
        return ""
    if score is None:
        return "it was not scored" if rollout.status == "succeeded" else f"it is {rollout.status}"
    reason = score.rationale if is_failure(score) else score.error if score.value is None else ""
    return reason.removeprefix(FAILURE_PREFIX)[:REASON_CHARACTERS]


def _metric(name: str, rollout: Rollout, scores: Mapping[str, Score]) -> float | None:
    if name == "errors":
        ended = rollout.status in FAILED_STATUSES or rollout.status == "succeeded"
        return float(rollout.status in FAILED_STATUSES) if ended else None
    score = scores.get(name)
    return score.value if score is not None else None
