"""Auto: selects and sequences algorithms by the agent's resources, data and budget.

Each way to improve is an arm of a bandit: an algorithm and the resources that it may change. Every
arm that can work gets a first slice of the budget, the most promising first; after that, slices go
to the arm with the greatest val gain per unit of cost, discounted by how often it brought none (a
budgeted bandit: Tran-Thanh et al. 2012). Each slice starts from the best candidate so far, so that
gains of several algorithms add up. The survey decides which arm is the most promising: it runs the
source candidate on some train tasks and attributes its failures to resources.

Each algorithm selects on its own val tasks, few if its slice is small. So a gain is measured on the
tasks that both candidates ran and shrunk by how few they are. A reserve pays for one comparison of
the best with the source on the same val tasks at the end.

At the floor, where next to no task has a score above 0, changes that help only together score 0
each, and no arm alone gains. There an arm that found nothing better hands on what it added
(`Finding.tied`), and arms whose changes are random come last: they have no score to follow, and a
change of theirs is as good as any other. A source at the floor has nothing to lose, so this costs
no score; elsewhere a tie is not handed on, since the best of several ties is more often worse than
better than the source. Whether it is at the floor is decided anew before each slice, by all that
the best so far has run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ratchet.learn.algorithm import NOTHING_TO_LEARN, Finding, require_tasks
from ratchet.learn.arms import ARMS, TRAINED, Arm
from ratchet.learn.attribution import blame
from ratchet.learn.budget import too_few_rollouts
from ratchet.learn.budget_scheduler import (
    SOLVED,
    ArmRecord,
    BudgetScheduler,
    BudgetSlices,
    at_floor,
    is_solved,
    solves_all,
)
from ratchet.learn.lab import Lab
from ratchet.learn.work import Evaluation, mean, require_scores
from ratchet.llm.hosted_model import HOSTED_MODEL
from ratchet.types import InputError, Task
from ratchet.types.wording import counted

SURVEYED = 24
"""Maximum number of train tasks in the survey."""

SLICES = 6
"""Maximum number of slices that the budget is divided into."""

MIN_SURVEY_TASKS, MIN_VAL_TASKS, MIN_SLICE_ROLLOUTS, MIN_LAST_SLICE_ROLLOUTS = 4, 8, 150, 16
"""Minimums for a small budget: train tasks of the survey, val tasks, rollouts of a slice, and
rollouts of a single remaining slice. About 50 rollouts of a slice measure its start and its end, so
a shorter one has too little left for a chain of small gains."""


class Auto:
    """Selects and sequences algorithms; the default of `ratchet improve`.

    Args:
        algorithms: Names of the arms to use: tune, apo, evolve, evolve-code, few_shot, sft, grpo;
            by default all that fit.
        surveyed: Maximum number of train tasks on which the source candidate is surveyed first.
        slices: Maximum number of slices that the budget is divided into.
    """

    name = "auto"
    needs_coach = None
    """Uses a coach if one is configured."""

    def __init__(
        self,
        *,
        algorithms: Sequence[str] | None = None,
        surveyed: int = SURVEYED,
        slices: int = SLICES,
    ) -> None:
        for option, value in (("surveyed", surveyed), ("slices", slices)):
            if type(value) is not int or value < 1:
                raise InputError(f"Auto({option}={value!r}): expected a positive whole number.")
        choices = [*(arm.name for arm in ARMS), *TRAINED]
        for name in algorithms or ():
            if name not in choices:
                raise InputError(f"Auto has no algorithm {name!r}; it has {', '.join(choices)}.")
        self._named = tuple(algorithms or ())
        self._surveyed = surveyed
        self._slices = slices
        self.arms: tuple[Arm, ...] = ARMS
        """The arms to select from; the code that can train the agent's model adds arms for that."""

    async def learn(self, lab: Lab) -> Finding:
        """Spend the lab's budget on the arms with the greatest gain.

        Raises:
            InputError: None of the agent's resources can be improved.
            BudgetExhausted: The budget does not cover the survey.
        """
        require_tasks(lab)
        records = self._possible(lab)
        plan = self._plan(lab, len(records))
        runs = await lab.evaluate(lab.baseline, _surveyed(lab.train, plan.survey))
        own = await lab.evaluate(lab.baseline, lab.val[: plan.val])
        require_scores(own, "val")
        if is_solved([*runs, *own]) and await solves_all(lab, lab.baseline):
            return Finding(
                best=lab.baseline,
                baseline_val=mean(own),
                best_val=mean(own),
                proposals=0,
                sentence=NOTHING_TO_LEARN,
                ended="solved",
            )
        await self._survey(lab, records, runs)
        scheduler = BudgetScheduler(
            lab,
            records,
            plan,
            mean(own),
            at_floor=at_floor([evaluation.worth for evaluation in (*runs, *own)]),
        )
        return await scheduler.finding(await scheduler.run())

    def _possible(self, lab: Lab) -> list[ArmRecord]:
        """The arms that can work here. Reports each that cannot, with the reason."""
        records, left_out = [], []
        for arm in self.arms:
            targets = tuple(name for name, r in lab.targets.items() if arm.fits(r))
            if not targets or (self._named and arm.name not in self._named):
                continue
            if arm.asks and not lab.coach.is_configured:
                left_out.append(
                    f"{arm.name} ({arm.what}) needs a coach model, and none is configured"
                )
                continue
            records.append(ArmRecord(arm, targets, arm.prior))
        missing = {*self._named} & {*TRAINED} - {arm.name for arm in self.arms}
        for name in sorted(missing):
            left_out.append(f"{name} (weights) needs a model on this machine, and none is named")
        if not records:
            kinds = ", ".join(sorted(lab.targets)) or "none"
            reason = f" {'; '.join(left_out)}." if left_out else ""
            raise InputError(
                f"Nothing can be improved: the agent's resources are {kinds}.{reason}",
                hint='For a command, name its model in ratchet.toml:\n\n[agent]\nmodel = "local"\n'
                if missing
                else f'Name a coach under [coach] in ratchet.toml: model = "{HOSTED_MODEL}".'
                if left_out
                else "Declare a prompt, params or a function: ratchet.prompt, .params, .evolve.",
            )
        for sentence in left_out:
            lab.note(f"Left out: {sentence}.")
        return records

    def _plan(self, lab: Lab, arms: int) -> BudgetSlices:
        """How the budget is divided; a small one has a shorter survey and fewer slices."""
        train, val = len(lab.train), len(lab.val)
        if lab.budget.rollouts is None:
            survey = min(self._surveyed, train)
            return BudgetSlices(survey, val, reserve=0, slices=max(self._slices, arms))
        left = lab.budget.rollouts - lab.spent.rollouts
        survey = min(self._surveyed, train, max(MIN_SURVEY_TASKS, left // 16))
        compared = min(val, max(MIN_VAL_TASKS, left // 8))
        # A single arm compares with the source itself.
        reserve = compared if arms > 1 else 0
        remaining = left - survey - compared - reserve
        if remaining < MIN_LAST_SLICE_ROLLOUTS:
            needed = left - remaining + MIN_LAST_SLICE_ROLLOUTS
            raise too_few_rollouts(
                f"The budget of {lab.budget.rollouts} rollouts does not cover a survey of the"
                f" agent and one candidate: {needed} are needed.",
            )
        slices = min(max(self._slices, arms), max(1, remaining // MIN_SLICE_ROLLOUTS))
        return BudgetSlices(survey, compared, reserve=reserve, slices=slices)

    async def _survey(
        self, lab: Lab, records: Sequence[ArmRecord], runs: Sequence[Evaluation]
    ) -> None:
        """Weight the arms by the resources to which the source's failures are attributed."""
        low = [e for e in runs if e.worth < SOLVED]
        require_scores(runs, "train")
        lab.note(
            f"The agent currently scores {mean(runs):.3f} on {counted(len(runs), 'train task')}; "
            f"{len(low)} of them {'is' if len(low) == 1 else 'are'} not solved."
        )
        if not low:
            return
        shares = await _blame_shares(lab, low)
        if len(lab.targets) > 1:
            lab.note(f"Its failures point to {_format_shares(shares)}.")
        for record in records:
            if record.arm.one:
                most = max(record.targets, key=lambda name: shares.get(name, 0.0))
                record.targets = (most,)
            # Half prior, half evidence: attribution errs.
            record.weight *= 0.5 + math.fsum(shares.get(name, 0.0) for name in record.targets)


def _surveyed(tasks: Sequence[Task], count: int) -> list[Task]:
    """The tasks of the survey: first those captured from live traffic, at most half, then others.

    What was captured for a problem stands at the end of a dataset, where a survey of the first
    tasks would not see its failures.
    """
    captured = [task for task in reversed(tasks) if task.origin.made == "captured"]
    chosen = {task.id for task in captured[: count // 2]}
    for task in tasks:
        if len(chosen) == count:
            break
        chosen.add(task.id)
    return [task for task in tasks if task.id in chosen]


async def _blame_shares(lab: Lab, low: Sequence[Evaluation]) -> dict[str, float]:
    """Mean share of the missing score attributed to each target over these evaluations."""
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


def _format_shares(shares: Mapping[str, float]) -> str:
    ranked = sorted(shares.items(), key=lambda entry: (-entry[1], entry[0]))
    return ", ".join(f"{name!r} {share:.0%}" for name, share in ranked if share > 0)
