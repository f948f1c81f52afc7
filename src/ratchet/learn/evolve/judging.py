"""Judging: what candidates scored, what becomes of them, and who leads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ratchet.learn.evolve.bandit import Bandit
from ratchet.learn.evolve.ending import is_within_chance
from ratchet.learn.evolve.estimate import Estimate
from ratchet.learn.evolve.ledger import Ledger
from ratchet.learn.evolve.plan import Plan
from ratchet.learn.evolve.population import Member, Population, gains
from ratchet.learn.evolve.racing import EVEN, may_lead, verdict
from ratchet.learn.evolve.settings import Settings
from ratchet.learn.lab import Lab
from ratchet.learn.work import FAILURES, Evaluation, Proposal
from ratchet.types import InputError

PARTS = 2
"""First parts after which a candidate that is no worse than its parent is kept."""

EVENS = "even"
"""The bandit's arm of candidates that ran on though they were only even with their parents."""


class Judging:
    """The members of a search, and what is known of each.

    Args:
        lab: Where the search works.
        plan: Numbers it keeps to.
        settings: What the user chose.
        ledger: What it has committed.
    """

    def __init__(self, lab: Lab, plan: Plan, settings: Settings, ledger: Ledger) -> None:
        self._lab = lab
        self._plan = plan
        self._settings = settings
        self._ledger = ledger
        self.estimate = Estimate()
        self.bandit = Bandit({EVENS: (1.0, 3.0)})
        self.baseline = Member(0, lab.baseline)
        self.baseline.state = "kept"
        self.population = Population(
            self.baseline,
            self.estimate,
            islands=plan.islands,
            migrate_every=settings.migrate_every,
        )
        self.racing: list[Member] = []
        """Members of whom it is not decided yet whether they are kept."""
        self.runs_by_task: dict[str, int] = {}
        """How many members ran each train task."""
        self.tried = 0
        """Candidates judged."""
        self.kept = 0
        self.turned_away = 0
        """Candidates refused by the checks, before they cost a rollout."""
        self.failed_tests = 0
        """Candidates refused by the repository's own tests, after their first tasks."""
        self.last_refusal = ""
        """Why the last of them was refused."""
        self.children: dict[int, list[tuple[str, float]]] = {}
        """What was tried of each member, and what it gained, the newest last."""
        self.ended = ""
        """Why the search is over; empty while it is not."""
        self.on_kept: Callable[[Member], None] = lambda member: None
        self.on_ran: Callable[[Member, bool], None] = lambda member, ran: None
        """Told of each member whether it ran at all, as soon as that is known."""
        self.on_judged: Callable[[Member, bool], None] = lambda member, leads: None
        """Told of each member that is judged whether it leads."""
        self._best: tuple[int, float] = (0, 0.0)
        self._quiet = 0

    @property
    def top(self) -> float:
        """The best score there can be, as far as one knows."""
        return self.estimate.top

    @property
    def first(self) -> int:
        """Tasks of a candidate's first part."""
        return self._plan.first

    def enough(self, member: Member) -> int:
        """Tasks after which a member that is no worse than its parent is kept."""
        parent = member.parent
        assert parent is not None
        return max(len(member.first), min(len(parent.scores), PARTS * self._plan.first))

    def take(self, member: Member, evaluations: Sequence[Evaluation]) -> None:
        """Take what a member scored on train tasks, and decide about it."""
        values = {e.task.id: e.value for e in evaluations if e.value is not None}
        if not member.evaluations and member.parent is not None:
            self.on_ran(member, _runs(evaluations, member.parent.evaluations))
        for evaluation in evaluations:
            task = evaluation.task.id
            member.under_way.discard(task)
            member.evaluations[task] = evaluation
            self.runs_by_task[task] = self.runs_by_task.get(task, 0) + 1
        member.scores.update(values)
        if values:
            parent = member.parent.id if member.parent else None
            self.estimate.add(member.id, parent, values)
        if member is self.baseline:
            self._begin_with_baseline()
        elif member.state == "racing":
            self.decide(member)
        self._look_for_the_end()

    def refused(self, member: Member, why: str) -> None:
        """The checks turned a member away: it cost nothing."""
        member.under_way.clear()
        self.turned_away += 1
        self.last_refusal = why
        self._drop(member)
        for reply in member.replies:
            self._lab.credit(reply, False)
        self._remember(member, f"{member.candidate.reason} It was refused: {why}", 0.0)
        self.on_ran(member, False)

    def waits_for_tests(self, member: Member) -> bool:
        """Whether a member that has shown something is to pass its repository's tests first."""
        if member.state != "racing" or member.tested or not member.evaluations:
            return False
        return not member.under_way and self._lab.needs_test(member.candidate)

    def tested(self, member: Member, fault: str) -> None:
        """The repository's own tests had their say, before a member costs more or is kept."""
        member.tested, member.refused = True, fault
        if not fault:
            self.decide(member)
            return
        self.failed_tests += 1
        self.last_refusal = fault
        self._drop(member)
        self._credit(member, False)
        self._remember(member, f"{member.candidate.reason} It was refused: {fault}", 0.0)
        self._tell(member)

    def unrun(self, member: Member, tasks: Sequence[str]) -> None:
        """Rollouts of a member were not allowed."""
        member.under_way.difference_update(tasks)

    def _begin_with_baseline(self) -> None:
        if not self.baseline.scores:
            raise InputError(
                "No train task has a score: the objective's evaluator failed on every rollout of"
                " the source.",
                hint="See why: ratchet eval.",
            )
        if self.tried == 0:
            self._best = (0, self.estimate.standing(self.baseline.id).mean)

    def decide(self, member: Member) -> None:
        """Decide about a member that races: it is kept, dropped, or runs on."""
        parent = member.parent
        assert parent is not None
        said = verdict(
            member.scores,
            parent.scores,
            over=len(member.evaluations) >= self.enough(member),
            scale=max(1.0, self.estimate.highest),
        )
        if said == "even":
            if self._worth_more(member):
                member.even_at = len(member.evaluations)
                return
            said = "worse"
        if said == "going":
            leader = self.estimate.standing(self.population.best().id)
            if may_lead(self.estimate.standing(member.id), leader):
                return
            said = "worse"  # than the one that leads
        if said == "passed" and self.waits_for_tests(member):
            return
        gain = gains(member, parent.scores)
        if said == "passed":
            shared = sum(task in parent.scores for task in member.scores)
            before = sum(parent.scores[t] for t in member.scores if t in parent.scores) / shared
            after = before + gain
            member.accepted = (
                f"It scored {after:.3g} where its parent scored {before:.3g} on the same"
                f" {shared} tasks."
            )
            member.state = "kept"
            self.racing.remove(member)
            self.population.keep(member)
            self.kept += 1
            self._credit(member, True)
            self._remember(member, member.candidate.reason, gain)
            self.on_kept(member)
        else:
            self._drop(member)
            self._credit(member, False)
            self._remember(member, member.candidate.reason, gain)
        self._tell(member)

    def _worth_more(self, member: Member) -> bool:
        """Whether a member that is even with its parent so far is to run on.

        It depends on what else the rollouts could go to: a new draft's first tasks. Where most
        drafts bring nothing, one that is even is the better bet. Both shares are learned.
        """
        parent, known = member.parent, len(member.evaluations)
        assert parent is not None
        if member.even_at == known:
            return True  # it was decided before
        if _same(member.evaluations, parent.evaluations):
            return False
        if not _runs(list(member.evaluations.values()), parent.evaluations):
            return False  # it scores what its parent does by not running at all
        cost = min(known, self.enough(member) - known)
        even, new = (self.bandit.draw(arm, self._lab.rng) for arm in (EVENS, member.proposer))
        return even * len(member.first) > new * cost

    def _drop(self, member: Member) -> None:
        member.state = "dropped"
        self.racing.remove(member)
        for parent in member.parents:
            parent.failed_children += 1

    def _credit(self, member: Member, survived: bool) -> None:
        self.bandit.count(member.proposer, survived)
        if member.even_at:
            self.bandit.count(EVENS, survived)
        self.bandit.count(f"{member.proposer}/{member.operator}", survived)
        for name in member.changed:
            self.bandit.count(f"target/{name}", survived)
        for reply in member.replies:
            self._lab.credit(reply, survived)

    def _remember(self, member: Member, reason: str, gain: float) -> None:
        for parent in member.parents[:1]:
            self.children.setdefault(parent.number, []).append((reason, gain))

    def _tell(self, member: Member) -> None:
        leader = self.population.best()
        mean = self.estimate.standing(leader.id).mean
        better = leader.number != self._best[0] and mean > self._best[1] + EVEN
        self._best = (leader.number, mean)
        self._quiet = 0 if better else self._quiet + 1
        self._lab.judged(
            Proposal(
                number=self.tried,
                candidate_id=member.id,
                value=member.mean(),
                tasks=len(member.scores),
                pruned=member.state == "dropped",
                best=leader.mean(),
                rollouts=self._ledger.rollouts,
                dollars=self._ledger.dollars,
                coach_calls=self._ledger.coach_calls,
                accepted=member.accepted,
                refused=member.refused,
            )
        )
        self.tried += 1
        self.on_judged(member, better and leader is member)
        patience, most = self._settings.patience, self._settings.max_candidates
        if patience is not None and self._quiet >= patience:
            self.ended = f"{self._quiet} candidates in a row brought nothing better."
        if most is not None and self.tried >= most:
            self.ended = f"the limit of {most} candidates was reached."

    def _look_for_the_end(self) -> None:
        every = len(self._lab.train)
        for member in self.population.members:
            if len(member.scores) < every:
                continue
            left = [self.top - score for score in member.scores.values()]
            if max(left) <= EVEN:
                self.ended = "a candidate solves every train task."
                return
            if member.parents and every > 1 and is_within_chance(left):
                self.ended = "what a candidate leaves of the train tasks is within chance."


def _runs(evaluations: Sequence[Evaluation], parents: Mapping[str, Evaluation]) -> bool:
    """Whether a candidate runs: it fails on every task only where its parent fails too."""
    return any(
        e.rollout.status not in FAILURES
        or (e.task.id in parents and parents[e.task.id].rollout.status in FAILURES)
        for e in evaluations
    )


def _same(evaluations: Mapping[str, Evaluation], parents: Mapping[str, Evaluation]) -> bool:
    """Whether a candidate did the same as its parent, to the letter, wherever both ran."""
    return all(
        evaluation.rollout.output == parents[task].rollout.output
        and evaluation.rollout.error == parents[task].rollout.error
        for task, evaluation in evaluations.items()
        if task in parents
    )
