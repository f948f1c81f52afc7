"""The plan of an experiment, fixed before it begins: metric, levels, guardrails and pairs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import isfinite

import msgspec

from ratchet.prove.frozen_plan import FrozenPlan
from ratchet.prove.guardrails import Guardrail
from ratchet.prove.missing import MissingRule
from ratchet.types import InputError
from ratchet.types.experiment import MAX_REPETITIONS

MAX_METRIC = 1e15
"""Largest magnitude of a guardrail's metric."""


class ExperimentPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one experiment, fixed before its first pair.

    Raises:
        InputError: A value is out of range; the message names the field.
    """

    metric: str = "score"
    """The score, in [0, 1], that the candidate must improve."""
    alpha: float = 0.05
    """Probability of promoting a candidate that is no better or breaks a guardrail, however often
    the experiment is checked. In a stream of candidates it comes from `level`."""
    min_gain: float = 0.01
    """The smallest relevant mean gain; a gain proved to be below it ends the experiment."""
    margin: float = 0.0
    """How much lower the candidate may score. Above 0, it must be proved no worse by that much,
    instead of better. Then `min_gain` is 0: a loss proved to be above the margin ends the
    experiment."""
    harm_alpha: float = 0.05
    """Probability of stopping for harm when the candidate is no worse."""
    futility_alpha: float = 0.05
    """Probability of stopping for futility when the gain is at least `min_gain`."""
    guardrails: tuple[Guardrail, ...] = ()
    min_pairs: int = 10
    """Number of scored pairs before which the experiment can end only for harm."""
    max_pairs: int = 1000
    """Number of pairs, including missing ones, after which the experiment ends in any case."""
    seed: int = 0
    """The seed that ordered the pairs; recorded, not used."""
    repetitions: int = 1
    """How often each task is run with each candidate. Above 1, a pair compares means. It must not
    depend on any result of the experiment."""
    labels: int = 0
    """Number of pairs that people label if the metric is a judge's; 0 for any other. Then all pairs
    are run, and only their labels can promote."""
    missing: MissingRule = "worst"
    """What a missing score counts as; see `ratchet.prove.missing`."""
    stages: tuple[int, ...] = ()
    """Numbers of pairs that were planned before tasks were added, in order; `max_pairs` is the
    last. An e-process bets for the pairs that were planned at the time."""
    frozen: FrozenPlan | None = None
    """Sets of fixed problems that are run once the pairs promote, and must pass, too; None for
    none."""

    def __post_init__(self) -> None:
        for field in ("alpha", "harm_alpha", "futility_alpha", "min_gain", "margin"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise InputError(f"Plan: {field} = {value!r} is not a number.")
            msgspec.structs.force_setattr(self, field, float(value))
        for field in ("alpha", "harm_alpha", "futility_alpha"):
            value = getattr(self, field)
            if not 1e-12 <= value <= 0.5:
                raise InputError(f"Plan: {field} = {value!r} is not between 1e-12 and 0.5.")
        if not 0.0 <= self.min_gain < 1.0:
            raise InputError(f"Plan: min_gain = {self.min_gain!r} is not between 0 and 1.")
        if not 0.0 <= self.margin < 1.0:
            raise InputError(f"Plan: margin = {self.margin!r} is not between 0 and 1.")
        if self.margin and self.min_gain:
            raise InputError(
                f"Plan: margin = {self.margin!r} and min_gain = {self.min_gain!r} are both given.",
                hint="Keep min_gain to prove a candidate better, margin to prove it no worse; set "
                "the other to 0.",
            )
        for field in ("min_pairs", "max_pairs", "seed", "repetitions"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int):
                raise InputError(f"Plan: {field} = {value!r} is not a whole number.")
        if not 1 <= self.min_pairs <= self.max_pairs:
            raise InputError(
                f"Plan: min_pairs = {self.min_pairs} and max_pairs = {self.max_pairs};"
                " expected 1 <= min_pairs <= max_pairs."
            )
        if not 1 <= self.repetitions <= MAX_REPETITIONS:
            raise InputError(
                f"Plan: repetitions = {self.repetitions} is not between 1 and {MAX_REPETITIONS}."
            )
        if isinstance(self.labels, bool) or not isinstance(self.labels, int):
            raise InputError(f"Plan: labels = {self.labels!r} is not a whole number.")
        if not 0 <= self.labels <= self.max_pairs:
            raise InputError(
                f"Plan: labels = {self.labels} is not between 0 and max_pairs = {self.max_pairs}."
            )
        names = [guardrail.metric for guardrail in self.guardrails]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InputError(f"Plan: guardrail {twice[0]!r} is given twice.")
        if self.missing not in ("worst", "skip"):
            raise InputError(f"Plan: missing = {self.missing!r} is neither 'worst' nor 'skip'.")
        totals = (0, *self.stages, self.max_pairs)
        if any(before >= after for before, after in pairwise(totals)):
            raise InputError(
                f"Plan: stages = {self.stages!r} do not increase strictly, from at least 1 to less"
                f" than max_pairs = {self.max_pairs}."
            )
        if self.stages and self.labels:
            raise InputError(
                "Plan: stages and labels are both given.",
                hint="The pairs that people label are drawn from all pairs, before the first one.",
            )

    def horizon(self, pairs: int) -> int:
        """The number of pairs that were planned when this many had been observed."""
        return next((total for total in self.stages if total > pairs), self.max_pairs)


class PairedScore(msgspec.Struct, frozen=True):
    """One task's results for both candidates.

    A score is None if it is missing: the evaluator could not be asked, or the rollout ended without
    a result. The plan says what it counts as. If a side's *agent* failed (an error, a timeout) and
    that should count as a score of zero, name the side in `failed`.

    Args:
        task_id: The task.
        baseline: Score in [0, 1], or None.
        candidate: Score in [0, 1], or None.
        metrics: Baseline's and candidate's value by guardrail metric, in the metric's unit.
        failed: Sides (`baseline`, `candidate`) whose rollout failed and counts as zero.
        baseline_rollout: Id of the rollout, for evidence.
        candidate_rollout: Id of the rollout, for evidence.
        repetitions: What the scores and metrics are means of, one for each time that the task was
            run; see `of_repetitions`. Empty if it was run once.
        reasons: Why a side has no score, or has 0 since its answer broke the evaluator, by side.
        labels: People's labels of both answers, in [0, 1], if the pair was drawn for it; of one
            repetition, if there are several. None for an answer that has none.

    Raises:
        InputError: A score is outside [0, 1], or a value is not finite; the message names the task.
    """

    task_id: str
    baseline: float | None
    candidate: float | None
    metrics: dict[str, tuple[float | None, float | None]] = {}
    failed: tuple[str, ...] = ()
    baseline_rollout: str = ""
    candidate_rollout: str = ""
    repetitions: tuple[PairedScore, ...] = ()
    reasons: dict[str, str] = {}
    labels: tuple[float | None, float | None] | None = None

    @property
    def missing(self) -> bool:
        """Whether a side has no score."""
        return self.baseline is None or self.candidate is None

    @property
    def runs(self) -> tuple[PairedScore, ...]:
        """The repetitions; the pair itself if its task was run once."""
        return self.repetitions or (self,)

    def filled(self, baseline: float, candidate: float) -> tuple[float, float]:
        """Scores of both sides, with these values for runs that have none."""
        return (
            _filled(self.baseline, [run.baseline for run in self.repetitions], baseline),
            _filled(self.candidate, [run.candidate for run in self.repetitions], candidate),
        )

    @classmethod
    def of_repetitions(cls, repetitions: Sequence[PairedScore]) -> PairedScore:
        """The pair of means of a task that was run several times; of a single run, that run.

        A mean with a missing part is missing; `filled` counts only that part.

        Args:
            repetitions: The task's results, at least one.
        """
        first = repetitions[0]
        if len(repetitions) == 1:
            return first
        return cls(
            first.task_id,
            _mean([repetition.baseline for repetition in repetitions]),
            _mean([repetition.candidate for repetition in repetitions]),
            {
                name: (
                    _mean([_side(repetition, name, 0) for repetition in repetitions]),
                    _mean([_side(repetition, name, 1) for repetition in repetitions]),
                )
                for name in first.metrics
            },
            repetitions=tuple(repetitions),
        )

    def __post_init__(self) -> None:
        for side in self.failed:
            if side not in ("baseline", "candidate"):
                raise InputError(
                    f"Task {self.task_id!r}: failed side {side!r} is neither 'baseline' nor"
                    " 'candidate'."
                )
            if getattr(self, side) not in (None, 0):
                raise InputError(
                    f"Task {self.task_id!r}: the {side} failed, yet has the score"
                    f" {getattr(self, side)!r}.",
                    hint="Leave the score of a failed side None; it counts as 0.",
                )
            msgspec.structs.force_setattr(self, side, 0.0)
        for side in ("baseline", "candidate"):
            score = getattr(self, side)
            if score is None:
                continue
            if type(score) is not float:
                msgspec.structs.force_setattr(self, side, self._number(side, score))
            if not 0.0 <= getattr(self, side) <= 1.0:
                raise InputError(
                    f"Task {self.task_id!r}: the {side}'s score {score!r} is outside [0, 1].",
                    hint="Scores with a unit can be guardrails; the score to improve must be in "
                    "[0, 1].",
                )
        if self.metrics:
            self._check_metrics()
        if self.labels is not None:
            before, after = (
                None if value is None else self._number("label", value) for value in self.labels
            )
            if not all(value is None or 0.0 <= value <= 1.0 for value in (before, after)):
                raise InputError(
                    f"Task {self.task_id!r}: the labels {self.labels!r} are not between 0 and 1."
                )
            msgspec.structs.force_setattr(self, "labels", (before, after))

    def _check_metrics(self) -> None:
        checked: dict[str, tuple[float | None, float | None]] = {}
        for name, sides in self.metrics.items():
            if not isinstance(sides, (tuple, list)) or len(sides) != 2:
                raise InputError(
                    f"Task {self.task_id!r}: metric {name!r} is {sides!r};"
                    " expected (baseline, candidate)."
                )
            before, after = (None if v is None else self._number(name, v) for v in sides)
            checked[name] = (before, after)
        msgspec.structs.force_setattr(self, "metrics", checked)

    def _number(self, name: str, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise InputError(f"Task {self.task_id!r}: {name} {value!r} is not a number.")
        if not isfinite(value) or not -MAX_METRIC <= value <= MAX_METRIC:
            raise InputError(
                f"Task {self.task_id!r}: {name} {value!r} is not finite, or too large."
            )
        return float(value)


def _side(pair: PairedScore, metric: str, side: int) -> float | None:
    return pair.metrics.get(metric, (None, None))[side]


def _filled(score: float | None, runs: Sequence[float | None], fill: float) -> float:
    """The score of a side; for missing runs, the mean with `fill` in their place."""
    if score is not None:
        return score
    mean = _mean([fill if value is None else value for value in runs or [None]])
    assert mean is not None
    return mean


def _mean(values: Sequence[float | None]) -> float | None:
    total = 0.0  # `sum` rounds differently from Python 3.12 on
    for value in values:
        if value is None:
            return None
        total += value
    return total / len(values)
