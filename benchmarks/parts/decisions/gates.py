"""The gates of this field and Ratchet's, on the same paired scores of many experiments at once.

Scores have the shape (experiments, tasks), NaN where one is missing. A gate returns for each
experiment whether it promotes the candidate. All but Ratchet leave out what is missing: they have
no rule for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ratchet.prove import Comparison, ExperimentPlan, Guardrail, PairedScore, level
from ratchet.prove.smallest_margin import smallest_margin
from ratchet.stats.student_t import t_quantile

Scores = NDArray[np.float64]
Flags = NDArray[np.bool_]
Gate = Callable[[Scores, Scores], Flags]

BATCH = 10
"""Tasks after which the peeking t-test looks, again and again."""


def best_mean(baseline: Scores, candidate: Scores) -> Flags:
    """The higher mean on held-out tasks wins.

    So choose GEPA (`GEPAResult.best_idx`), DSPy (`MIPROv2`: `score > best_score`), the APO of Agent
    Lightning 0.3 (`best_score > self._history_best_score`) and SkillOpt (`evaluate_gate`).
    """
    higher: Flags = np.nanmean(candidate, axis=1) > np.nanmean(baseline, axis=1)
    return higher


@dataclass(frozen=True)
class StandardErrors:
    """The mean difference exceeds `count` of its standard errors, once, after the last task.

    So decides cap-evolve (`gate.decide`: Δ > k·SE).
    """

    count: float

    def __call__(self, baseline: Scores, candidate: Scores) -> Flags:
        known, mean, error = _moments(candidate - baseline)
        # Without any spread, there is no error to be exceeded: the differences are all the same.
        return (known > 1) & (mean > self.count * error)


@dataclass(frozen=True)
class PeekingT:
    """A one-sided paired t-test after each batch, as if each look were the only one."""

    alpha: float

    def __call__(self, baseline: Scores, candidate: Scores) -> Flags:
        difference = candidate - baseline
        promoted = np.zeros(len(difference), bool)
        for tasks in range(BATCH, difference.shape[1] + 1, BATCH):
            known, mean, error = _moments(difference[:, :tasks])
            needed = np.array([t_quantile(1.0 - self.alpha, max(1, n - 1)) for n in known])
            promoted |= (known > 1) & (mean > needed * error)
        return promoted


@dataclass(frozen=True)
class Ratchet:
    """`ratchet.prove.Comparison` with the guardrail on errors that a project has by default."""

    alpha: float

    def __call__(self, baseline: Scores, candidate: Scores) -> Flags:
        tasks = baseline.shape[1]
        errors = smallest_margin(Guardrail("errors", 0.1), alpha=self.alpha, pairs=tasks)
        plan = ExperimentPlan(alpha=self.alpha, max_pairs=tasks, guardrails=(errors,))
        return np.array(
            [
                verdict(plan, before, after) == "promote"
                for before, after in zip(baseline.tolist(), candidate.tolist(), strict=True)
            ]
        )


def verdict(plan: ExperimentPlan, baseline: list[float], candidate: list[float]) -> str:
    """How a comparison of these scores ends; no rollout fails."""
    comparison = Comparison(plan)
    metrics = {guardrail.metric: (0.0, 0.0) for guardrail in plan.guardrails}
    for number, (before, after) in enumerate(zip(baseline, candidate, strict=True)):
        pair = PairedScore(str(number), _known(before), _known(after), dict(metrics))
        if comparison.observe(pair) is not None:
            break
    return comparison.finish()


def _known(score: float) -> float | None:
    return None if score != score else score


def _moments(difference: Scores) -> tuple[NDArray[np.int64], Scores, Scores]:
    """Number of known differences, their mean and its standard error, by experiment."""
    known = np.sum(~np.isnan(difference), axis=1)
    mean = np.nanmean(difference, axis=1)
    error = np.nanstd(difference, axis=1, ddof=1) / np.sqrt(known)
    return known, mean, error


def gates(alpha: float) -> dict[str, Gate]:
    """The gates that are compared, by name; ours also at a stream's first level."""
    return {
        "best_mean": best_mean,
        "1_se": StandardErrors(1.0),
        "2_se": StandardErrors(2.0),
        "peeking": PeekingT(alpha),
        "ours": Ratchet(alpha),
        "ours_first": Ratchet(level(alpha, [])),
    }
