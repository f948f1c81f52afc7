"""Schedules the budget of `Auto`: allocates slices to arms and records their gains."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from ratchet.learn.algorithm import SPENT, Finding, SearchEnd
from ratchet.learn.arms import Arm
from ratchet.learn.budget import Budget, BudgetExhausted
from ratchet.learn.lab import Lab
from ratchet.learn.search.plan import least
from ratchet.learn.work import Evaluation, mean
from ratchet.llm import CoachUnavailable
from ratchet.sandbox.limits import SandboxUnavailable
from ratchet.stats.gain import may_gain
from ratchet.types import (
    Candidate,
    ConfigError,
    Cost,
    InputError,
    RatchetError,
    Task,
    total_cost,
)
from ratchet.types.wording import counted

SOLVED = 0.999
"""Score from which on a task counts as solved."""

GAIN_PSEUDO_COUNT = 2.0
"""Number of val tasks without gain that are added when a measured gain is shrunk."""

MAX_BARREN_SLICES = 2
"""Number of slices in a row without a gain after which an arm is retired."""

NOTHING_TO_LOSE_SHARE = 0.05
"""A source has nothing to lose if at most this share of its tasks score above 0."""

MIN_FIRST_SLICE_ROLLOUTS = 40
"""Rollouts of a first slice from which on every arm gets one, however few slices the budget has."""

NOTHING_MORE = "it found nothing more"
"""Why a working arm is retired."""

MIN_ROLLOUTS_LEFT = 8
"""Remaining rollouts below which no algorithm can make progress."""

CANNOT = (InputError, BudgetExhausted, CoachUnavailable, ConfigError, SandboxUnavailable)
"""Errors of an algorithm that cannot work here; others are still scheduled."""


class ArmRecord:
    """Spending and gains of one arm."""

    def __init__(self, arm: Arm, targets: tuple[str, ...], weight: float) -> None:
        self.arm = arm
        self.targets = targets
        self.weight = weight
        self.gain = 0.0
        self.rollouts = 0
        self.dollars = Cost()
        self.coach_calls = 0
        self.slices = 0
        self.barren = 0
        """Number of slices in a row without a gain."""
        self.refused = False
        """Whether it reported in its last slice that it cannot work."""
        self.is_fresh = True
        """Whether it gets a next slice whatever the others gain."""
        self.out = ""
        """Why it was retired; empty while active."""

    def rate(self, dollars_matter: bool) -> float:
        """Gain per unit of cost, discounted for slices without a gain."""
        cost = self.dollars.known_usd if dollars_matter else float(self.rollouts)
        return self.gain / max(cost, 1e-9) / (1 + self.barren)


class BudgetSlices(msgspec.Struct, frozen=True):
    """Division of a budget."""

    survey: int
    """Number of train tasks that the source candidate runs first."""
    val: int
    """Number of val tasks that the source runs first. The best candidate runs them at the end, for
    comparison."""
    reserve: int
    """Rollouts reserved for that final comparison."""
    slices: int
    """Number of slices that the rest is divided into."""


class BudgetScheduler:
    """Allocates one budget to the arms, slice by slice."""

    def __init__(
        self,
        lab: Lab,
        records: Sequence[ArmRecord],
        plan: BudgetSlices,
        baseline_val: float,
        *,
        at_floor: bool = False,
    ) -> None:
        self._lab = lab
        self._records = list(records)
        self._at_floor = at_floor
        """Whether the candidate that the next slice starts from has next to no score."""
        self._tied: Candidate | None = None
        """The arms' starting candidate while all scores are near 0 and none has gained."""
        self._plan = plan
        self._baseline_val = baseline_val
        self._improvements: list[tuple[Candidate, float, float]] = []
        """Each better candidate, with its predecessor's mean and its own on the same tasks."""
        self._solved = False
        self._proposals = 0

    @property
    def _best(self) -> Candidate:
        if self._improvements:
            return self._improvements[-1][0]
        return self._tied or self._lab.baseline

    async def run(self) -> SearchEnd:
        """Spend the budget; returns how the search ended."""
        number = 0
        while self._lab.may_continue(f"auto/{number:03d}"):
            if self._solved:
                return SearchEnd("solved", "its best candidate solves every train and val task")
            if self._left() < MIN_ROLLOUTS_LEFT and number:
                return SPENT
            self._at_floor = self._is_at_floor(number)
            record = self._next()
            if record is None:
                return SearchEnd("idle", "no algorithm found anything more")
            await self._slice(number, record)
            number += 1
        return SPENT

    async def finding(self, end: SearchEnd) -> Finding:
        """The result, with the best candidate and the source compared on the same val tasks."""
        best, baseline_val, best_val = self._lab.baseline, self._baseline_val, self._baseline_val
        if self._improvements:
            best, baseline_val, best_val = await self._compare()
        tried = [record for record in self._records if record.slices]
        parts = [
            f"{record.arm.name} on {_names(record.targets)} ({_gain(record)})" for record in tried
        ]
        return Finding(
            best=best,
            baseline_val=baseline_val,
            best_val=best_val,
            proposals=self._proposals,
            sentence=f"{'; '.join(parts) or 'Nothing was tried'}; {end.why}.",
            ended=end.cause,
        )

    async def _compare(self) -> tuple[Candidate, float, float]:
        """The last candidate that beats the source, with the means of both."""
        lab = self._lab
        try:
            await self._confirm()
        except BudgetExhausted:
            pass  # compare on the tasks already run
        for candidate, before, after in reversed(self._improvements):
            pairs = lab.compared(f"auto/{candidate.id}", lab.baseline, candidate)
            if not pairs:  # it was compared with its predecessor only
                return candidate, before, after
            on_train = lab.compared(
                f"auto/train/{candidate.id}", lab.baseline, candidate, tasks=lab.train
            )
            own, its = (math.fsum(values) / len(pairs) for values in zip(*pairs, strict=True))
            if may_gain([after - before for before, after in (*on_train, *pairs)]):
                return candidate, own, its
            also = f"{len(on_train)} train and " if on_train else ""
            lab.note(
                f"Candidate {candidate.id[:8]} is no better than the source on {also}{len(pairs)} "
                f"val tasks; on val: {own:.3f} → {its:.3f}."
            )
        return lab.baseline, self._baseline_val, self._baseline_val

    async def _confirm(self) -> float:
        """Mean of the currently best candidate on the val tasks that the source has run."""
        tasks = self._lab.val[: self._plan.val]
        return mean(await self._lab.evaluate(self._best, tasks))

    def _is_at_floor(self, number: int) -> bool:
        """Whether nearly every score of the best candidate so far is 0; asked before each slice."""
        lab, best = self._lab, self._best
        tasks = [*lab.train, *lab.val]
        pairs = lab.compared(f"auto/floor/{number:03d}", best, best, tasks=tasks)
        return at_floor([value for value, _ in pairs]) if pairs else self._at_floor

    def _left(self) -> float:
        """Rollouts left for slices."""
        if self._lab.budget.rollouts is None:
            return math.inf
        return max(0, self._lab.budget.rollouts - self._lab.spent.rollouts - self._plan.reserve)

    def _next(self) -> ArmRecord | None:
        ready = [record for record in self._records if not record.out]
        fresh = [record for record in ready if record.is_fresh]
        if fresh:
            blind_last = self._at_floor
            return min(fresh, key=lambda record: (blind_last and record.arm.blind, -record.weight))
        spent = self._lab.spent.cost
        costly = spent.known_usd > 0 and not spent.unpriced
        best = max(ready, key=lambda record: (record.rate(costly), record.weight), default=None)
        return best

    async def _slice(self, number: int, record: ArmRecord) -> None:
        lab = self._lab
        name = f"{number:02d}-{record.arm.name}"
        lab.note(f"Next, {record.arm.name} on {_names(record.targets)}: {self._why(record)}.")
        share = self._share()
        part = lab.part(
            name,
            baseline=self._best,
            budget=share,
            only=record.targets,
            is_last=not self._plan.reserve,
            **_some_tasks(record.arm, lab, share),
        )
        record.slices += 1
        record.is_fresh = False
        try:
            finding = await record.arm.make().learn(part)
        except CANNOT as error:
            self._account(record, part)
            record.out, record.refused = _as_sentence(error), True
            lab.note(f"{record.arm.name} cannot continue: {record.out}")
            if isinstance(error, CoachUnavailable):
                self._without_coach(record.out)
            return
        self._account(record, part)
        if record.arm.once:
            record.out = NOTHING_MORE
        self._proposals += finding.proposals
        cost, summary = _cost(part), finding.sentence
        if finding.ended == "budget":
            cost += ", its share of the budget"
        if finding.ended in ("coach", "coach_unusable"):
            self._without_coach(finding.sentence)
        if finding.best.id == self._best.id:
            record.barren += 1
            lab.note(f"{record.arm.name} found nothing better ({cost}): {summary}")
            if self._at_floor and finding.tied is not None:
                self._tied = finding.tied
                lab.note(
                    "Nearly every task scores 0, so its change cannot lose anything: the next "
                    f"algorithm starts from candidate {finding.tied.id[:8]}, which scores no less."
                )
            # An arm that ended before its share was spent had nothing left to try.
            if record.barren >= MAX_BARREN_SLICES or finding.ended != "budget":
                record.out = NOTHING_MORE
            return
        pairs = lab.compared(name, self._best, finding.best)
        gain = finding.best_val - finding.baseline_val
        gain *= len(pairs) / (len(pairs) + GAIN_PSEUDO_COUNT) if pairs else 1.0
        record.barren = 0 if gain > 0 else record.barren + 1
        record.gain += gain
        on = f" on {counted(len(pairs), 'val task')}" if pairs else " on val"
        lab.note(
            f"{record.arm.name} raised the mean from {finding.baseline_val:.3f} to"
            f" {finding.best_val:.3f}{on} ({cost}): {summary}"
            if gain > 0
            else f"{record.arm.name} used {cost}. Its best candidate scores higher on train but "
            f"not on val; the next algorithm starts from it. {summary}"
        )
        for rival in self._records:
            if rival is not record and self._may_return(rival):
                rival.out, rival.barren, rival.is_fresh = "", 0, True
        tied, first = self._tied, not self._improvements
        self._improvements.append((finding.best, finding.baseline_val, finding.best_val))
        if tied is not None and first:
            await self._try_without(tied, part, share)
        elif finding.best_val >= SOLVED and all(after >= SOLVED for _, after in pairs):
            try:
                solved = await self._confirm() >= SOLVED
            except BudgetExhausted:
                solved = True  # as far as can be measured
            self._solved = solved and await solves_all(lab, self._best, most=self._left())

    def _without_coach(self, why: str) -> None:
        """Retire the arms that need the coach, which no longer answers."""
        for record in self._records:
            if record.arm.asks and not record.out:
                record.out, record.refused = why, True
        arms = [record.arm.name for record in self._records if not record.out]
        what = (
            f"continues with {', '.join(arms)}"
            if arms
            else ("has no algorithm that works without one")
        )
        self._lab.note(f"Auto has lost its coach and {what}.")

    async def _try_without(self, tied: Candidate, part: Lab, share: Budget) -> None:
        """Drop what a tied candidate added if the best candidate scores no lower without it."""
        lab, best = self._lab, self._best
        names = tied.changed_from(lab.baseline)
        if set(names) & {*best.changed_from(tied)}:
            return
        alone = best.derive(
            {name: lab.baseline.resources[name] for name in names},
            algorithm="auto",
            reason="The best candidate without what was added while almost every task scored 0.",
        )
        tasks = part.val if share.rollouts is None else part.val[: max(8, share.rollouts // 16)]
        try:
            with_it = await lab.evaluate(best, tasks)
            without = await lab.evaluate(alone, tasks)
        except BudgetExhausted:
            return
        before, after = mean(with_it), mean(without)
        lab.note(
            f"On {counted(len(tasks), 'val task')} the best scores {before:.3f}, and {after:.3f} "
            f"without what was added to {_names(names)}."
        )
        if after >= before:
            self._improvements[-1] = (alone, self._baseline_val, after)

    def _account(self, record: ArmRecord, part: Lab) -> None:
        record.rollouts += part.spent.rollouts
        record.dollars = total_cost([record.dollars, part.spent.cost])
        record.coach_calls += part.spent.coach_calls

    def _why(self, record: ArmRecord) -> str:
        ready = [r for r in self._records if not r.out or self._may_return(r)]
        if len(ready) == 1:
            return "nothing else is left to try" if record.slices else "it fits this agent"
        if record.is_fresh and record.slices:
            return "its candidates can now be told apart by their scores"
        if record.is_fresh:
            return "each algorithm runs once, the most promising first"
        if record.gain <= 0:
            return "nothing has brought a gain yet, and it is the most promising"
        return "it gained the most for its cost"

    def _may_return(self, record: ArmRecord) -> bool:
        """Whether an arm starts again once another gains: until then, all scores were near 0 and
        showed nothing."""
        waiting = self._tied is not None and not self._improvements
        return waiting and record.slices > 0 and record.out in ("", NOTHING_MORE)

    def _share(self) -> Budget:
        """Budget of the next slice."""
        lab = self._lab
        ready = [record for record in self._records if not record.out or self._may_return(record)]
        used = sum(record.slices for record in self._records)
        # At the floor the first slice tells little, and is made up for later.
        planned = self._plan.slices + self._at_floor
        owed = sum(record.is_fresh and not record.out for record in ready)
        if lab.budget.rollouts is not None:
            owed = min(owed, int(self._left() // MIN_FIRST_SLICE_ROLLOUTS))
        left = 1 if len(ready) == 1 else max(1, planned - used, owed)

        def slice_of(limit: float | None, spent: float) -> float | None:
            return None if limit is None else max((limit - spent) / left, 1e-9)

        budget, spent = lab.budget, lab.spent
        # Less than a search needs would buy nothing.
        needed = min(self._left(), least(len(lab.train), len(lab.val)))
        rollouts = None if budget.rollouts is None else max(self._left() / left, needed)
        calls = slice_of(budget.coach_calls, spent.coach_calls)
        return Budget(
            rollouts=None if rollouts is None else max(1, int(rollouts)),
            seconds=slice_of(budget.seconds, spent.seconds),
            coach_calls=None if calls is None else max(1, int(calls)),
            dollars=slice_of(budget.dollars, spent.dollars),
        )


def at_floor(values: Sequence[float]) -> bool:
    """Whether almost none of these scores is above the lowest score, 0.

    There, scores do not tell changes apart that help only together, such as examples of an answer
    and the parameter by which an answer ends; and no change can score much less.
    """
    above = sum(value > 0 for value in values)
    return bool(values) and min(values) >= 0 and above <= NOTHING_TO_LOSE_SHARE * len(values)


def is_solved(evaluations: Sequence[Evaluation]) -> bool:
    """Whether each of these tasks is solved."""
    return all(evaluation.worth >= SOLVED for evaluation in evaluations)


async def solves_all(lab: Lab, candidate: Candidate, *, most: float = math.inf) -> bool:
    """Whether a candidate solves every train and val task, as far as the budget can show.

    It runs in parts that double, so that a candidate which fails often is not run on all.

    Args:
        lab: Runs the candidate.
        candidate: The candidate.
        most: Rollouts that this may take.
    """
    tasks = [*lab.train, *lab.val]
    spent = lab.spent.rollouts
    first, count = 0, MIN_ROLLOUTS_LEFT
    while first < len(tasks) and lab.spent.rollouts - spent + count <= most:
        try:
            if not is_solved(await lab.evaluate(candidate, tasks[first : first + count])):
                return False
        except BudgetExhausted:
            return True
        first, count = first + count, 2 * count
    return True


def _some_tasks(arm: Arm, lab: Lab, share: Budget) -> dict[str, Sequence[Task]]:
    if share.rollouts is None or arm.subset is None:
        return {}
    train, val = arm.subset(lab, share.rollouts)
    return {"train": train, "val": val}


def _gain(record: ArmRecord) -> str:
    if record.refused and not record.rollouts and not record.coach_calls:
        return "could not work"
    cost = _format_cost(record.rollouts, record.coach_calls, record.dollars)
    if record.gain > 0:
        return f"+{record.gain:.3f} for {cost}"
    return f"no gain for {cost}" if record.rollouts or record.coach_calls else "no gain"


def _cost(part: Lab) -> str:
    return _format_cost(part.spent.rollouts, part.spent.coach_calls, part.spent.cost)


def _format_cost(rollouts: int, coach_calls: int, dollars: Cost) -> str:
    parts = [counted(rollouts, "rollout") if rollouts else "no new rollouts"]
    if coach_calls:
        parts.append(f"{coach_calls} coach call{'' if coach_calls == 1 else 's'}")
    if dollars != Cost():
        parts.append(str(dollars))
    return ", ".join(parts)


def _names(targets: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in targets)


def _as_sentence(error: RatchetError) -> str:
    return error.message if error.message.endswith(".") else f"{error.message}."
