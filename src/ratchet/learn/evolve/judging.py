"""Judging: records scores, accepts or drops candidates, and ranks the rest."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from ratchet.learn.algorithm import SearchEnd
from ratchet.learn.evidence import TriedChange, tried_change
from ratchet.learn.evolve.bandit import Bandit
from ratchet.learn.evolve.budget import SearchLedger, SearchPlan
from ratchet.learn.evolve.ending import is_within_chance
from ratchet.learn.evolve.population import Member, Population
from ratchet.learn.evolve.settings import SearchSettings
from ratchet.learn.lab import Lab
from ratchet.learn.race import EVEN, Race, next_part
from ratchet.learn.work import FAILURES, Evaluation, Proposal, require_scores

PARTS = 2
"""Number of first parts after which a candidate that gained over its parent is accepted."""


class Judging:
    """The members of a search and their state.

    Args:
        lab: The lab to search in.
        plan: Sizes of the search.
        settings: Options of the user.
        ledger: Committed spending.
    """

    def __init__(
        self, lab: Lab, plan: SearchPlan, settings: SearchSettings, ledger: SearchLedger
    ) -> None:
        self._lab = lab
        self._plan = plan
        self._settings = settings
        self._ledger = ledger
        self.race: Race[Member] = Race()
        self.bandit = Bandit()
        self.baseline = Member(0, lab.baseline)
        self.baseline.state = "kept"
        self.population = Population(
            self.baseline,
            self.race,
            islands=plan.islands,
            migrate_every=settings.migrate_every,
        )
        self.racing: list[Member] = []
        """Undecided members, some of them paused."""
        self.runs_by_task: dict[str, int] = {}
        """Number of members that ran each train task."""
        self.tried = 0
        """Number of candidates judged."""
        self.kept = 0
        self.turned_away = 0
        """Number of candidates refused by the checks, before they cost a rollout."""
        self.failed_tests = 0
        """Number of candidates refused by the repository's own tests, after their first tasks."""
        self.last_refusal = ""
        """Why the last candidate was refused."""
        self.children: dict[int, list[TriedChange]] = {}
        """Changes tried on each member and their gains, newest last."""
        self.ended: SearchEnd | None = None
        """How the search ended; None while it runs."""
        self.on_kept: Callable[[Member], None] = lambda member: None
        self.on_ran: Callable[[Member, bool], None] = lambda member, ran: None
        """Callback with a member and whether it works, as soon as that is decided."""
        self.on_judged: Callable[[Member, bool], None] = lambda member, leads: None
        """Callback with a judged member and whether it leads."""
        self._best: tuple[int, float] = (0, 0.0)
        self._quiet = 0

    @property
    def top(self) -> float:
        """The highest possible score, as far as observed."""
        return self.race.top

    @property
    def first(self) -> int:
        """Number of tasks in a candidate's first part."""
        return self._plan.first

    def enough(self, member: Member) -> int:
        """Number of tasks after which a member that gained over its parent is accepted."""
        parent = member.parent
        assert parent is not None
        return max(len(member.first), min(len(parent.scores), PARTS * self._plan.first))

    def take(self, member: Member, evaluations: Sequence[Evaluation]) -> None:
        """Record a member's evaluations on train tasks, and decide on it."""
        if not member.evaluations and member.parent is not None:
            self.on_ran(member, _runs(evaluations, member.parent.evaluations))
        for evaluation in evaluations:
            task = evaluation.task.id
            member.under_way.discard(task)
            self.runs_by_task[task] = self.runs_by_task.get(task, 0) + 1
        self.race.add(member, evaluations)
        if member is self.baseline:
            self._begin_with_baseline()
        elif member.state == "racing":
            self.decide(member)
        self._look_for_the_end()

    def refused(self, member: Member, why: str) -> None:
        """Record that the checks refused a member, at no cost."""
        member.under_way.clear()
        self.turned_away += 1
        self.last_refusal = why
        self._drop(member)
        for reply in member.replies:
            self._lab.credit(reply, False)
        self._remember(member, f"{member.candidate.reason} It was refused: {why}")
        self.on_ran(member, False)

    def waits_for_tests(self, member: Member) -> bool:
        """Whether a promising member must pass the repository's tests first."""
        if member.state != "racing" or member.under_way or not self.is_untested(member):
            return False
        return self.may_be_kept(member) or not self.waits(member)

    def is_untested(self, member: Member) -> bool:
        """Whether a member that has run must pass the repository's tests before it runs more."""
        ran = bool(member.evaluations)
        return ran and not member.tested and self._lab.needs_test(member.candidate)

    def tested(self, member: Member, fault: str) -> None:
        """Record the result of the repository's own tests on a member."""
        member.tested, member.refused = True, fault
        if not fault:
            self.decide(member)
            return
        self.failed_tests += 1
        self.last_refusal = fault
        self._drop(member)
        self._credit(member, False)
        self._remember(member, f"{member.candidate.reason} It was refused: {fault}")
        self._report(member)

    def unrun(self, member: Member, tasks: Sequence[str]) -> None:
        """Record rollouts of a member that were not allowed."""
        member.under_way.difference_update(tasks)

    def _begin_with_baseline(self) -> None:
        require_scores(self.baseline.evaluations.values(), "train")
        if self.tried == 0:
            self._best = (0, self.race.standing(self.baseline).mean)

    def decide(self, member: Member) -> None:
        """Decide on a racing member: accept, drop, continue, or pause it."""
        parent = member.parent
        assert parent is not None
        if self.may_be_kept(member):
            if not self.waits_for_tests(member):
                self._accept(member, parent)
        elif self._is_out(member, parent):
            self._drop(member)
            if not member.waited:
                self._close(member)
        elif not member.waited and self.waits(member):
            # New drafts go first; it is judged by its scores so far, and may resume later.
            member.waited = True
            self._close(member)

    def may_be_kept(self, member: Member) -> bool:
        """Whether a member has gained over its parent on enough tasks."""
        gained = math.fsum(member.differences()) > EVEN
        return gained and len(member.evaluations) >= self.enough(member)

    def _is_out(self, member: Member, parent: Member) -> bool:
        """Whether a member cannot improve: it is worse, or the same, or has run all tasks."""
        known = len(member.evaluations)
        return (
            self.race.is_worse(member, len(parent.scores))
            or _same(member.evaluations, parent.evaluations)
            or not _runs(list(member.evaluations.values()), parent.evaluations)
            or known >= max(len(member.first), len(parent.scores))
        )

    def next_count(self, member: Member) -> int:
        """Number of tasks in the next part of a racing member."""
        parent, known = member.parent, len(member.evaluations)
        assert parent is not None
        enough = self.enough(member)
        limit = enough if known < enough else len(parent.scores)
        return next_part(known, self._plan.first, limit)

    def waits(self, member: Member) -> bool:
        """Whether new drafts are more promising than a racing member.

        The alternative use of the rollouts is a draft's first tasks. Where most drafts fail, a
        member that is even with its parent is the better option.
        """
        if not member.scores:
            return False
        if not self.race.may_lead(member, self.population.best()):
            return True
        share = self.bandit.share(member.proposer)
        cost = self.next_count(member)
        return not self.race.is_worth(member, cost, share=share, draft=len(member.first))

    def _accept(self, member: Member, parent: Member) -> None:
        shared = [task for task in member.scores if task in parent.scores]
        before = math.fsum(parent.scores[task] for task in shared) / len(shared)
        after = math.fsum(member.scores[task] for task in shared) / len(shared)
        member.accepted = (
            f"It scored {after:.3g} where its parent scored {before:.3g} on the same"
            f" {len(shared)} tasks."
        )
        member.state = "kept"
        self.racing.remove(member)
        self.population.keep(member)
        self.kept += 1
        self._close(member)
        self.on_kept(member)

    def _close(self, member: Member) -> None:
        """Journal and report a judged member."""
        self._credit(member, member.state == "kept")
        self._remember(member, member.candidate.reason)
        self._report(member)

    def _drop(self, member: Member) -> None:
        member.state = "dropped"
        self.racing.remove(member)
        for parent in member.parents:
            parent.failed_children += 1

    def _credit(self, member: Member, survived: bool) -> None:
        self.bandit.count(member.proposer, survived)
        self.bandit.count(f"{member.proposer}/{member.operator}", survived)
        for name in member.changed:
            self.bandit.count(f"target/{name}", survived)
        for reply in member.replies:
            self._lab.credit(reply, survived)

    def _remember(self, member: Member, reason: str) -> None:
        if member.parent is not None:
            change = tried_change(member, reason=reason)
            self.children.setdefault(member.parent.number, []).append(change)

    def _report(self, member: Member) -> None:
        leader = self.population.best()
        mean = self.race.standing(leader).mean
        better = leader.number != self._best[0] and mean > self._best[1] + EVEN
        self._best = (leader.number, mean)
        self._quiet = 0 if better else self._quiet + 1
        self._lab.judged(
            Proposal(
                number=self.tried,
                candidate_id=member.id,
                value=member.mean(),
                tasks=len(member.scores),
                pruned=member.state != "kept",
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
            self.ended = SearchEnd(
                "idle", f"{self._quiet} candidates in a row brought nothing better"
            )
        if most is not None and self.tried >= most:
            self.ended = SearchEnd("limit", f"the limit of {most} candidates was reached")

    def _look_for_the_end(self) -> None:
        every = len(self._lab.train)
        for member in self.population.members:
            if len(member.scores) < every:
                continue
            left = [self.top - score for score in member.scores.values()]
            if max(left) <= EVEN:
                self.ended = SearchEnd("solved", "a candidate solves every train task")
                return
            if member.parents and every > 1 and is_within_chance(left):
                self.ended = SearchEnd(
                    "solved", "what a candidate leaves to gain on train is within chance"
                )


def _runs(evaluations: Sequence[Evaluation], parents: Mapping[str, Evaluation]) -> bool:
    """Whether a candidate works: it fails on every task only if its parent does too."""
    return any(
        e.rollout.status not in FAILURES
        or (e.task.id in parents and parents[e.task.id].rollout.status in FAILURES)
        for e in evaluations
    )


def _same(evaluations: Mapping[str, Evaluation], parents: Mapping[str, Evaluation]) -> bool:
    """Whether a candidate's outputs equal its parent's on every task that both ran."""
    return all(
        evaluation.rollout.output == parents[task].rollout.output
        and evaluation.rollout.error == parents[task].rollout.error
        for task, evaluation in evaluations.items()
        if task in parents
    )
