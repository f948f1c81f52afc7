"""Auto: looks at what an agent has, its data and its budget, and picks and sequences algorithms.

Each way to improve is an arm of a bandit: the algorithm, and the resources that it may change.
Every arm that can work here gets a first slice of the budget, the likeliest first; after that,
slices go to the arm with the greatest gain on val for what it cost, discounted by how often it
brought none (a budgeted bandit: Tran-Thanh et al. 2012). Each slice starts from the best candidate
so far, so that gains of several algorithms add up. Which arm is likeliest says the survey: the
source's own candidate on some train tasks, and to which resources its failures point.

Each algorithm chooses on val tasks of its own, few where its slice is small. So a gain is what was
measured on the tasks that both candidates ran, shrunk by how few they are, and what is left over is
kept for one comparison of the best with the source on the same val tasks at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import msgspec

from ratchet.learn.algorithm import Algorithm, Finding
from ratchet.learn.attribution import blame
from ratchet.learn.budget import Budget, BudgetExhausted
from ratchet.learn.lab import Lab
from ratchet.learn.work import Evaluation, mean
from ratchet.llm import CoachUnavailable
from ratchet.sandbox.limits import SandboxUnavailable
from ratchet.types import (
    Candidate,
    Code,
    ConfigError,
    InputError,
    Params,
    PromptTemplate,
    RatchetError,
    Resource,
)

SURVEYED = 24
"""Train tasks that the survey looks at, at most."""

LOW = 0.999
"""A value below this is something to learn from."""

SLICES = 6
"""Into how many slices the budget is cut, at most."""

LEAST_SURVEY, LEAST_VAL, LEAST_SLICE, LEAST_LEFT = 4, 8, 100, 16
"""Of a small budget: train tasks of the survey, val tasks, rollouts of a slice, and of the one
slice that there is at the very least."""

DOUBT = 2.0
"""Val tasks without any gain that are added to those that were run."""

SPENT = "the budget is spent"

TIRED = 2
"""Slices in a row without a gain after which an arm rests for good."""

CANNOT = (InputError, BudgetExhausted, CoachUnavailable, ConfigError, SandboxUnavailable)
"""What an algorithm raises when it cannot work here; another may."""


class Arm(msgspec.Struct, frozen=True):
    """A way to improve an agent."""

    name: str
    make: Callable[[], Algorithm]
    fits: Callable[[Resource], bool]
    """Whether it can change a resource."""
    asks: bool
    """Whether it needs a coach."""
    prior: float
    """How much is expected of it, before anything is known, relative to the others."""
    what: str
    """What it changes, for people."""


def _tune() -> Algorithm:
    from ratchet.learn.tune import Tune

    return Tune()


def _apo() -> Algorithm:
    from ratchet.learn.apo import APO

    return APO()


def _evolve() -> Algorithm:
    from ratchet.learn.evolve import Evolve

    return Evolve()


def _few_shot() -> Algorithm:
    from ratchet.learn.few_shot import FewShot

    return FewShot()


def _is_prompt(resource: Resource) -> bool:
    return isinstance(resource, PromptTemplate)


def _is_code(resource: Resource) -> bool:
    return isinstance(resource, Code)


def _has_knobs(resource: Resource) -> bool:
    return isinstance(resource, Params) and bool(resource.space)


ARMS: tuple[Arm, ...] = (
    Arm("tune", _tune, _has_knobs, asks=False, prior=1.0, what="numbers and choices"),
    Arm("apo", _apo, _is_prompt, asks=True, prior=1.2, what="prompts"),
    Arm("evolve", _evolve, _is_prompt, asks=True, prior=1.1, what="prompts"),
    Arm("evolve-code", _evolve, _is_code, asks=False, prior=0.9, what="code"),
    Arm("few_shot", _few_shot, _is_prompt, asks=False, prior=0.6, what="examples in prompts"),
)
"""All that `Auto` may choose from; one entry a way."""


class _Record:
    """What an arm did so far."""

    def __init__(self, arm: Arm, targets: tuple[str, ...], weight: float) -> None:
        self.arm = arm
        self.targets = targets
        self.weight = weight
        self.gain = 0.0
        self.rollouts = 0
        self.dollars = 0.0
        self.coach_calls = 0
        self.slices = 0
        self.barren = 0
        """Slices in a row without a gain."""
        self.out = ""
        """Why it gets nothing more; empty while it may."""

    def rate(self, dollars_matter: bool) -> float:
        """Gain per unit of cost, discounted for slices that brought nothing."""
        cost = self.dollars if dollars_matter else float(self.rollouts)
        return self.gain / max(cost, 1e-9) / (1 + self.barren)


class Auto:
    """Picks and sequences algorithms; the default of `ratchet improve`.

    Args:
        algorithms: Names of arms it may use: tune, apo, evolve, evolve-code, few_shot; all that fit
            when left out.
        surveyed: Train tasks on which the source's own candidate is looked at first, at most.
        slices: Into how many slices the budget is cut, at most.
    """

    name = "auto"
    needs_coach = None
    """It takes a coach if there is one."""

    def __init__(
        self,
        *,
        algorithms: Sequence[str] | None = None,
        surveyed: int = SURVEYED,
        slices: int = SLICES,
    ) -> None:
        for option, value in (("surveyed", surveyed), ("slices", slices)):
            if type(value) is not int or value < 1:
                raise InputError(f"Auto({option}={value!r}): a whole number from 1 up is needed.")
        known = [arm.name for arm in ARMS]
        for name in algorithms or ():
            if name not in known:
                raise InputError(f"Auto has no algorithm {name!r}; it has {', '.join(known)}.")
        self._allowed = tuple(algorithms) if algorithms else tuple(known)
        self._surveyed = surveyed
        self._slices = slices

    async def learn(self, lab: Lab) -> Finding:
        """Spend the lab's budget where it brings most.

        Raises:
            InputError: Nothing here can be improved with what there is.
            BudgetExhausted: The budget does not reach for the survey.
        """
        for split, tasks in (("train", lab.train), ("val", lab.val)):
            if not tasks:
                raise InputError(f"There are no {split} tasks.", hint="Change split under [tasks].")
        records = self._possible(lab)
        plan = self._plan(lab, len(records))
        seen = await lab.evaluate(lab.baseline, lab.train[: plan.survey])
        own = await lab.evaluate(lab.baseline, lab.val[: plan.val])
        await self._survey(lab, records, seen)
        course = _Course(lab, records, plan, _known(mean(own)))
        why = await course.run()
        return await course.finding(why)

    def _possible(self, lab: Lab) -> list[_Record]:
        """The arms that can work here, with a note on each that cannot."""
        records, left_out = [], []
        for arm in ARMS:
            targets = tuple(name for name, r in lab.targets.items() if arm.fits(r))
            if not targets or arm.name not in self._allowed:
                continue
            if arm.asks and not lab.has_coach:
                left_out.append(f"{arm.name} ({arm.what}) asks a coach LLM, and none is configured")
                continue
            records.append(_Record(arm, targets, arm.prior))
        if not records:
            kinds = ", ".join(sorted(lab.targets)) or "none"
            reason = f" {'; '.join(left_out)}." if left_out else ""
            raise InputError(
                f"Nothing here can be improved: the agent's resources are {kinds}.{reason}",
                hint='Name a coach under [coach] in ratchet.toml: model = "gpt-5-mini".'
                if left_out
                else "Name a prompt, params or a function: ratchet.prompt, .params, .evolve.",
            )
        for sentence in left_out:
            lab.note(f"Left out: {sentence}.")
        return records

    def _plan(self, lab: Lab, arms: int) -> _Plan:
        """How the budget is divided; a small one buys a shorter look and fewer slices."""
        train, val = len(lab.train), len(lab.val)
        if lab.budget.rollouts is None:
            survey = min(self._surveyed, train)
            return _Plan(survey, val, reserve=0, slices=max(self._slices, arms))
        left = lab.budget.rollouts - lab.spent.rollouts
        survey = min(self._surveyed, train, max(LEAST_SURVEY, left // 16))
        compared = min(val, max(LEAST_VAL, left // 8))
        # One way alone compares with the source itself.
        reserve = compared if arms > 1 else 0
        rest = left - survey - compared - reserve
        if rest < LEAST_LEFT:
            needed = left - rest + LEAST_LEFT
            raise BudgetExhausted(
                f"The budget of {lab.budget.rollouts} rollouts does not reach for a look at the"
                f" agent and one candidate: {needed} are needed.",
                hint="Raise rollouts under [improve.budget]; a few hundred are usual.",
            )
        slices = min(max(self._slices, arms), max(1, rest // LEAST_SLICE))
        return _Plan(survey, compared, reserve=reserve, slices=slices)

    async def _survey(
        self, lab: Lab, records: Sequence[_Record], seen: Sequence[Evaluation]
    ) -> None:
        """Weigh the arms by where the failures of the source's own candidate point."""
        low = [e for e in seen if e.value is not None and e.value < LOW]
        value = _known(mean(seen))
        lab.note(
            f"The agent as it is scores {value:.3f} on {len(seen)} train tasks;"
            f" {len(low)} of them are not solved."
        )
        if not low:
            return
        shares = await _blamed(lab, low)
        if len(lab.targets) > 1:
            lab.note(f"Its failures point to {_said(shares)}.")
        for record in records:
            # Half by what is known of the arm, half by the evidence: attribution errs.
            record.weight *= 0.5 + math.fsum(shares.get(name, 0.0) for name in record.targets)


class _Plan(msgspec.Struct, frozen=True):
    """How a budget is divided."""

    survey: int
    """Train tasks that the source's own candidate runs first."""
    val: int
    """Val tasks that it runs first, and on which the best is compared with it at the end."""
    reserve: int
    """Rollouts that are kept for that."""
    slices: int
    """Parts that the rest is cut into."""


class _Course:
    """The spending of one budget."""

    def __init__(
        self, lab: Lab, records: Sequence[_Record], plan: _Plan, baseline_val: float
    ) -> None:
        self._lab = lab
        self._records = sorted(records, key=lambda record: -record.weight)
        self._plan = plan
        self._baseline_val = baseline_val
        self._kept: list[tuple[Candidate, float, float]] = []
        """Each better candidate, with the means of its forerunner and its own on the same tasks."""
        self._solved = baseline_val >= 1.0
        self._proposals = 0

    @property
    def _best(self) -> Candidate:
        return self._kept[-1][0] if self._kept else self._lab.baseline

    async def run(self) -> str:
        """Spend it; returns why it ended."""
        number = 0
        while self._lab.may_continue(f"auto/{number:03d}"):
            if self._solved:
                return "every val task is solved."
            if self._left() == 0:
                return "the budget is spent."
            record = self._next()
            if record is None:
                return "no algorithm brought anything more."
            await self._slice(number, record)
            number += 1
        return "the budget is spent."

    async def finding(self, why: str) -> Finding:
        """What it came to, with the best compared with the source on the same val tasks."""
        best, baseline_val, best_val = self._lab.baseline, self._baseline_val, self._baseline_val
        if self._kept:
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
            sentence=f"{'; '.join(parts) or 'Nothing was tried'}; {why}",
        )

    async def _compare(self) -> tuple[Candidate, float, float]:
        """The last candidate that is better than the source, with the means of both."""
        lab = self._lab
        try:
            await self._confirm()
        except BudgetExhausted:
            pass  # what is known has to do
        for candidate, before, after in reversed(self._kept):
            pairs = lab.compared(f"auto/{candidate.id}", lab.baseline, candidate)
            if not pairs:  # it was compared with its forerunner only
                return candidate, before, after
            own, its = (math.fsum(values) / len(pairs) for values in zip(*pairs, strict=True))
            if its > own:
                return candidate, own, its
            lab.note(
                f"Candidate {candidate.id[:8]} is no better than the source on"
                f" {len(pairs)} val tasks: {own:.3f} → {its:.3f}."
            )
        return lab.baseline, self._baseline_val, self._baseline_val

    async def _confirm(self) -> float:
        """The mean of the best so far on as many val tasks as the source has run."""
        tasks = self._lab.val[: self._plan.val]
        return mean(await self._lab.evaluate(self._best, tasks)) or 0.0

    def _left(self) -> float:
        """Rollouts that are left for slices."""
        if self._lab.budget.rollouts is None:
            return math.inf
        return max(0, self._lab.budget.rollouts - self._lab.spent.rollouts - self._plan.reserve)

    def _next(self) -> _Record | None:
        ready = [record for record in self._records if not record.out]
        fresh = [record for record in ready if not record.slices]
        if fresh:
            return fresh[0]
        costly = self._lab.spent.dollars > 0
        best = max(ready, key=lambda record: (record.rate(costly), record.weight), default=None)
        return best

    async def _slice(self, number: int, record: _Record) -> None:
        lab = self._lab
        name = f"{number:02d}-{record.arm.name}"
        lab.note(f"{record.arm.name} works on {_names(record.targets)}: {self._why(record)}.")
        part = lab.part(name, baseline=self._best, budget=self._share(), only=record.targets)
        record.slices += 1
        try:
            finding = await record.arm.make().learn(part)
        except CANNOT as error:
            self._account(record, part)
            record.out = _plain(error)
            lab.note(f"{record.arm.name} cannot go on: {record.out}")
            return
        self._account(record, part)
        self._proposals += finding.proposals
        cost, said = (
            _cost(part),
            finding.sentence.replace(SPENT, "its share of the budget is spent"),
        )
        if finding.best.id == self._best.id or finding.best_val < finding.baseline_val:
            record.barren += 1
            if record.barren >= TIRED or part.spent.rollouts == 0:
                record.out = "it brought nothing more"
            lab.note(f"{record.arm.name} found nothing better for {cost}: {said}")
            return
        pairs = lab.compared(name, self._best, finding.best)
        gain = finding.best_val - finding.baseline_val
        gain *= len(pairs) / (len(pairs) + DOUBT) if pairs else 1.0
        record.barren = 0 if gain > 0 else record.barren + 1
        record.gain += gain
        on = f" on {len(pairs)} val tasks" if pairs else " on val"
        did = (
            f"raised the mean from {finding.baseline_val:.3f} to {finding.best_val:.3f}{on}"
            if gain > 0
            else f"keeps a candidate that does better on train and as well{on}"
        )
        lab.note(f"{record.arm.name} {did}, for {cost}: {said}")
        self._kept.append((finding.best, finding.baseline_val, finding.best_val))
        if finding.best_val >= LOW and all(after >= LOW for _, after in pairs):
            try:
                self._solved = await self._confirm() >= LOW
            except BudgetExhausted:
                self._solved = True  # as far as can be told

    def _account(self, record: _Record, part: Lab) -> None:
        record.rollouts += part.spent.rollouts
        record.dollars += part.spent.dollars
        record.coach_calls += part.spent.coach_calls

    def _why(self, record: _Record) -> str:
        ready = [r for r in self._records if not r.out]
        if len(ready) == 1:
            return "nothing else is left to try" if record.slices else "it is what fits this agent"
        if not record.slices:
            return "each way is tried once, the likeliest first"
        if record.gain <= 0:
            return "none brought anything yet, and it is the likeliest"
        return "it brought most for what it cost"

    def _share(self) -> Budget:
        """The next slice of what is left."""
        lab = self._lab
        ready = [record for record in self._records if not record.out]
        taken = sum(record.slices for record in self._records)
        left = 1 if len(ready) == 1 else max(1, self._plan.slices - taken)

        def slice_of(limit: float | None, spent: float) -> float | None:
            return None if limit is None else max((limit - spent) / left, 1e-9)

        budget, spent = lab.budget, lab.spent
        rollouts = None if budget.rollouts is None else self._left() / left
        calls = slice_of(budget.coach_calls, spent.coach_calls)
        return Budget(
            rollouts=None if rollouts is None else max(1, int(rollouts)),
            seconds=slice_of(budget.seconds, spent.seconds),
            coach_calls=None if calls is None else max(1, int(calls)),
            dollars=slice_of(budget.dollars, spent.dollars),
        )


async def _blamed(lab: Lab, low: Sequence[Evaluation]) -> dict[str, float]:
    """How much of what is missing in these evaluations each target is to blame for, on average."""
    shares = dict.fromkeys(lab.targets, 0.0)
    for evaluation in low:
        blamed = blame(
            lab.targets,
            await lab.spans(evaluation),
            error=evaluation.rollout.error,
            rationales=[s.rationale or "" for s in evaluation.scores.values()],
        )
        for name, share in blamed.items():
            shares[name] += share / len(low)
    return shares


def _gain(record: _Record) -> str:
    cost = _said_cost(record.rollouts, record.coach_calls, record.dollars)
    return f"+{record.gain:.3f} for {cost}" if record.gain > 0 else f"no gain for {cost}"


def _cost(part: Lab) -> str:
    return _said_cost(part.spent.rollouts, part.spent.coach_calls, part.spent.dollars)


def _said_cost(rollouts: int, coach_calls: int, dollars: float) -> str:
    parts = [f"{rollouts} rollout{'' if rollouts == 1 else 's'}"]
    if coach_calls:
        parts.append(f"{coach_calls} coach call{'' if coach_calls == 1 else 's'}")
    if dollars:
        parts.append(f"${dollars:.2f}")
    return ", ".join(parts)


def _names(targets: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in targets)


def _said(shares: Mapping[str, float]) -> str:
    ranked = sorted(shares.items(), key=lambda entry: (-entry[1], entry[0]))
    return ", ".join(f"{name!r} {share:.0%}" for name, share in ranked if share > 0)


def _plain(error: RatchetError) -> str:
    return error.message if error.message.endswith(".") else f"{error.message}."


def _known(value: float | None) -> float:
    if value is None:
        raise InputError(
            "No task has a score: the objective's evaluator failed on every rollout.",
            hint="See why: ratchet eval.",
        )
    return value
