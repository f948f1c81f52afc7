"""Frozen sets in an experiment: what was once fixed is proved to stay fixed.

Each set is a population of its own. Its tasks are drawn with replacement, in an order that a seed
fixes beforehand, and both sides run afresh for every draw: the differences are independent, with
the mean difference over the set as their mean. One e-process a set tests "worse by the margin or
more", at the level of the whole experiment: all sets have to pass, so no level is shared (see
`ratchet.prove.guardrails`).

The draws begin once the pairs have promoted the candidate. They are a different sample, and an
e-process holds at every stopping time, so the order changes no error rate; a proof that fails, as
most do, costs no draw.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ratchet.prove.frozen_plan import FrozenGuardrail, FrozenPlan
from ratchet.prove.guardrails import Guardrail
from ratchet.prove.plan import PairedScore
from ratchet.stats.eprocess import EProcess
from ratchet.types import FrozenResult, InputError
from ratchet.types.label import RIGHT_FROM


class Draw(NamedTuple):
    """A task to run next, once with each candidate."""

    set_id: str
    number: int
    """Number of draws of the set before this one."""
    task_id: str


class FrozenState:
    """One frozen set's evidence so far."""

    def __init__(self, planned: FrozenGuardrail, metric: str, alpha: float) -> None:
        self.planned = planned
        self.pairs: list[PairedScore] = []
        """Its draws, in order."""
        self._guardrail = Guardrail(metric, planned.margin, lower_is_better=False)
        self.process = EProcess(
            null=-self._guardrail.bound, threshold=1.0 / alpha, horizon=planned.draws
        )

    @property
    def passed(self) -> bool:
        """Whether "worse by the margin or more" is rejected."""
        return self.process.reached

    @property
    def lost(self) -> bool:
        """Whether its draws ran out before it passed."""
        return not self.passed and len(self.pairs) >= self.planned.draws

    def observe(self, pair: PairedScore) -> None:
        """Add the result of its next draw. A draw without a score counts as the largest worsening.

        Raises:
            InputError: It is no draw of this set, or the draws have run out.
        """
        number = len(self.pairs)
        if number >= self.planned.draws:
            raise InputError(f"Frozen set {self.planned.set_id}: its draws have run out.")
        drawn = self.planned.drawn(number)
        if pair.task_id != drawn:
            raise InputError(
                f"Frozen set {self.planned.set_id}: draw {number + 1} is task {pair.task_id!r},"
                f" but its seed draws {drawn!r}."
            )
        before, after = pair.baseline, pair.candidate
        unknown = before is None or after is None
        worsening = 1.0 if unknown else self._guardrail.worsening(before, after)  # type: ignore[arg-type]
        self.process.observe(-worsening)
        self.pairs.append(pair)

    def result(self) -> FrozenResult:
        """The result of the draws, and which tasks the candidate broke and fixed."""
        scored = [pair for pair in self.pairs if not pair.missing]
        by_task: dict[str, list[PairedScore]] = {}
        for pair in scored:
            by_task.setdefault(pair.task_id, []).append(pair)
        right = {
            task: (_mean(pairs, "baseline") >= RIGHT_FROM, _mean(pairs, "candidate") >= RIGHT_FROM)
            for task, pairs in by_task.items()
        }
        return FrozenResult(
            set_id=self.planned.set_id,
            problem_id=self.planned.problem_id,
            title=self.planned.title,
            tasks=len(self.planned.tasks),
            draws=len(self.pairs),
            missing=len(self.pairs) - len(scored),
            margin=self.planned.margin,
            baseline=_mean(scored, "baseline") if scored else None,
            candidate=_mean(scored, "candidate") if scored else None,
            e_value=self.process.peak,
            passed=self.passed,
            broken=tuple(sorted(task for task, sides in right.items() if sides == (True, False))),
            fixed=tuple(sorted(task for task, sides in right.items() if sides == (False, True))),
        )


class FrozenProof:
    """The frozen sets of one experiment.

    Args:
        plan: Which sets guard it, with what margins and draws.
        metric: The score.
        alpha: Level of the experiment.
    """

    def __init__(self, plan: FrozenPlan, metric: str, alpha: float) -> None:
        self.plan = plan
        self.states = {planned.set_id: FrozenState(planned, metric, alpha) for planned in plan.sets}
        """By set, in the order in which they were chosen."""
        self.order: list[tuple[str, PairedScore, float]] = []
        """Every draw in order: its set, its result, and the set's e-value after it."""

    @property
    def passed(self) -> bool:
        """Whether every set passed."""
        return all(state.passed for state in self.states.values())

    @property
    def lost(self) -> bool:
        """Whether some set can no longer pass: its draws or the common draws have run out."""
        if self.passed:
            return False
        out = len(self.order) >= self.plan.draws
        return out or any(state.lost for state in self.states.values())

    def next_draws(self, most: int) -> list[Draw]:
        """The next draws of the sets that have not passed, each in turn; none once the result is
        decided.

        Args:
            most: How many are run at once. Only the order and number of draws depend on it.
        """
        if self.passed or self.lost:
            return []
        open_states = [state for state in self.states.values() if not state.passed]
        most = min(most, self.plan.draws - len(self.order))
        draws: list[Draw] = []
        ahead = 0
        while len(draws) < most:
            before = len(draws)
            for state in open_states:
                number = len(state.pairs) + ahead
                if number < state.planned.draws and len(draws) < most:
                    task_id = state.planned.drawn(number)
                    draws.append(Draw(state.planned.set_id, number, task_id))
            if len(draws) == before:
                break
            ahead += 1
        return draws

    def observe(self, set_id: str, pair: PairedScore) -> None:
        """Add the result of a set's next draw.

        Raises:
            InputError: There is no such set, it is not its next draw, or the draws have run out.
        """
        state = self.states.get(set_id)
        if state is None:
            raise InputError(f"The plan has no frozen set {set_id!r}.")
        if len(self.order) >= self.plan.draws:
            raise InputError(
                f"All {self.plan.draws} draws of frozen sets have already been observed."
            )
        state.observe(pair)
        self.order.append((set_id, pair, state.process.value))

    def results(self) -> tuple[FrozenResult, ...]:
        """The result of each set, in the order in which they were chosen."""
        return tuple(state.result() for state in self.states.values())


def _mean(pairs: Sequence[PairedScore], side: str) -> float:
    values: Sequence[float] = [getattr(pair, side) for pair in pairs]
    return math.fsum(values) / len(values)
