"""The engine: runs proposals and evaluations concurrently, and makes one decision at a time.

A state machine: it starts work, waits for the first to finish, records the result, decides, and
starts more. The completion order comes from the lab's journal, randomness from the lab's generator,
and spending from the search's own ledger, so a resumed search makes the same decisions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeAlias

import msgspec

from ratchet.learn.algorithm import SPENT, SearchEnd
from ratchet.learn.budget import BudgetExhausted
from ratchet.learn.evolve.breeding import Breeding, NoProposal, StartedProposal
from ratchet.learn.evolve.budget import SearchLedger, SearchPlan
from ratchet.learn.evolve.candidate_tests import TestQueue
from ratchet.learn.evolve.final import FinalComparison
from ratchet.learn.evolve.judging import Judging
from ratchet.learn.evolve.population import Member
from ratchet.learn.evolve.roster import ProposerRoster
from ratchet.learn.evolve.settings import SearchSettings
from ratchet.learn.evolve.task_allocation import TaskAllocation
from ratchet.learn.lab import Lab
from ratchet.learn.proposers import Draft, Proposer
from ratchet.learn.work import Evaluation
from ratchet.llm import CoachUnavailable
from ratchet.types import Candidate, Task

EAGER = 4
"""Proposals are made ahead while the rollouts left exceed this multiple of the concurrency."""

PLENTY = 10
"""Idle slots are filled only while the budget covers this multiple of all train tasks."""


class RunningRollouts(msgspec.Struct, frozen=True, kw_only=True):
    """Rollouts of a candidate in progress, on a member's train tasks or on val tasks."""

    candidate: Candidate
    tasks: tuple[Task, ...]
    member: Member | None = None
    """None for val tasks."""


class RunningTests(msgspec.Struct, frozen=True):
    """The repository's own tests in progress, on the code of a member."""

    member: Member


class RefusedCandidate(msgspec.Struct, frozen=True):
    """Why a candidate was not run."""

    why: str


Job: TypeAlias = RunningRollouts | RunningTests | StartedProposal


class Engine:
    """One evolutionary search.

    Args:
        plan: Sizes of the search.
        settings: Options of the user.
        lab: The lab to search in.
        proposers: Draft the changes.
    """

    def __init__(
        self, lab: Lab, plan: SearchPlan, settings: SearchSettings, proposers: Sequence[Proposer]
    ) -> None:
        self._lab = lab
        self._plan = plan
        self._settings = settings
        self._tasks = {task.id: task for task in lab.train}
        order = [task.id for task in lab.shuffled("evolve/train", lab.train)]
        self.ledger = SearchLedger(lab)
        self.judging = Judging(lab, plan, settings, self.ledger)
        self.roster = ProposerRoster(lab, self.ledger, proposers)
        self.breeding = Breeding(lab, plan, settings, self.judging, self.ledger, self.roster)
        self.testing = TestQueue(self.judging, plan)
        self.parts = TaskAllocation(order, plan, self.judging, self.breeding)
        self.final = FinalComparison(lab, plan, self.judging, self.ledger)
        self._jobs: dict[str, Job] = {}
        self._pending: dict[str, asyncio.Task[Any]] = {}
        self._events = 0
        self._started = 0
        self._outstanding = 0
        # A few more than the concurrency: a part with one rollout left occupies a single slot.
        self._at_once = lab.concurrency + lab.concurrency // 4
        self._idle = ""
        """Why the last attempt to start a proposal brought none."""
        self.ended: SearchEnd | None = None
        """How the search ended; None while it runs."""

    async def run(self) -> SearchEnd:
        """Search until the budget is spent or no options are left, and compare the finalists.

        Returns:
            How the search ended.

        Raises:
            CoachUnavailable: The coach is unavailable, and no other proposer can work.
        """
        baseline = self.judging.baseline
        self._roll(baseline, self.parts.order[: self._plan.start])
        try:
            while True:
                self._launch()
                if self.ended:
                    await self._drop_proposals()
                if not self._pending:
                    break
                name = await self._lab.first(f"evolve/{self._events:06d}", self._pending)
                self._events += 1
                self._take(self._jobs.pop(name), self._pending.pop(name))
        finally:
            for task in self._pending.values():
                task.cancel()
            await asyncio.gather(*self._pending.values(), return_exceptions=True)
        if not baseline.evaluations:
            raise BudgetExhausted(
                "The budget was spent before the source had run on any train task.",
                hint="Raise it under [improve.budget].",
            )
        return self.ended or SPENT

    # Starting work.

    def _launch(self) -> None:
        """Start all work that is allowed."""
        if not self.ended and self.judging.baseline.scores:
            self._end_by_limits()
        searching = not self.ended and bool(self.judging.baseline.scores)
        tested = [job.member for job in self._jobs.values() if isinstance(job, RunningTests)]
        for member in self.testing.next(tested, self.parts.promise, over=bool(self.ended)):
            self._begin("test", RunningTests(member), self._lab.test(member.candidate))
        if searching:
            self._roll_parts()
            self._propose()
            if not self._jobs:
                # Parts of merges and of parents that need more scores, or else of paused members.
                self._roll_parts()
            if not self._jobs:
                self._roll_parts(waiting_too=True)
            if not self._jobs:
                self.ended = self._why_idle()
        if self.ended:
            if not self._awaits_others():
                for candidate, tasks in self.final.next_parts():
                    self._roll_val(candidate, tasks)
        elif self._outstanding < self._room:
            # Slots are free while proposals are drafted: the baseline's val tasks are needed
            # anyway.
            free = self._room - self._outstanding
            tasks = self.final.baseline_tasks(free)
            if tasks:
                self._roll_val(self._lab.baseline, tasks)
            free -= len(tasks)
            if free > 0 and searching and self._is_long and self._search_left() < self._at_once:
                self._compare_ahead(free)
            elif free > 0 and searching and self._search_left() > PLENTY * len(self.parts.order):
                self._fill(free)

    def _why_idle(self) -> SearchEnd:
        """Why nothing is left to start."""
        if self._search_left() >= self._plan.first and self.roster.exhausted:
            return self.roster.exhausted
        if self._search_left() >= self._plan.first and self._idle:
            return SearchEnd("idle", self._idle)
        return SPENT

    def _roll_parts(self, *, waiting_too: bool = False) -> None:
        while self._outstanding < self._at_once:
            part = self.parts.next(self._search_left(), self._promised(), waiting_too=waiting_too)
            if part is None:
                return
            self._roll(*part)

    def _awaits_others(self) -> bool:
        """Whether the comparison must wait for work in progress.

        The last few rollouts of a long search, or of one that has found a solution, hardly affect
        the finalists: then the comparison uses the slots they leave free.
        """
        if any(isinstance(job, RunningTests) for job in self._jobs.values()):
            return True
        left = sum(map(_on_train, self._jobs.values()))
        return left > (self._at_once // 2 if self._is_long or self.judging.ended else 0)

    @property
    def _is_long(self) -> bool:
        """Whether so many rollouts ran that the last few matter little."""
        return self.parts.begun > PLENTY * self._at_once

    @property
    def _room(self) -> int:
        """Target number of rollouts in flight when nothing more useful can run.

        Doubled at the start: otherwise all slots would be idle until the baseline's first rollouts
        are scored.
        """
        return self._lab.concurrency * (1 if self.judging.baseline.scores else 2)

    def _fill(self, free: int) -> None:
        """Run the baseline on more train tasks: all others are compared with it."""
        baseline = self.judging.baseline
        left = [] if baseline.under_way else self.parts.untried(baseline)
        if left:
            self._roll(baseline, left[:free])

    def _compare_ahead(self, free: int) -> None:
        """Run val tasks for the leader while the last parts end: slots are free."""
        leader = self.judging.population.best()
        if leader.parents and len(leader.scores) >= self._plan.val:
            tasks = self.final.tasks_ahead(leader)[:free]
            if tasks:
                self._roll_val(leader.candidate, tasks)

    def _end_by_limits(self) -> None:
        self.ended = self.judging.ended or self.ended
        if not self.ended and not self._lab.may_continue(f"evolve/{self._events:06d}"):
            self.ended = SPENT

    def _search_left(self) -> int:
        """Rollouts that the search may still commit, without those reserved for the comparison."""
        left = self.ledger.left() - self.final.reserve()
        return int(max(0.0, min(left, 10**9)))

    def _promised(self) -> int:
        """Rollouts that proposals in progress will need for their first parts."""
        drafts = sum(job.count for job in self._jobs.values() if isinstance(job, StartedProposal))
        waiting = sum(not m.evaluations and not m.under_way for m in self.judging.racing)
        return (drafts + waiting) * self._plan.first

    def _propose(self) -> None:
        """Start proposals: enough to keep slots busy, and no more than there is feedback for."""
        while True:
            promised = self._promised()
            free = self._search_left() - promised
            waiting = self.testing.waiting()
            racing = [m for m in self.judging.racing if m not in waiting]
            unjudged = sum(
                len(m.evaluations) < self._plan.first and not self.judging.waits(m) for m in racing
            )
            unjudged += sum(
                job.count for job in self._jobs.values() if isinstance(job, StartedProposal)
            )
            ahead = self._ahead() if self.roster.waits else 0
            lack = self._at_once + ahead - self._outstanding - promised
            count = min(
                free // self._plan.first,
                self._plan.breadth - unjudged,
                self.testing.may_begin() - promised // self._plan.first,
                -(-lack // self._plan.first),
            )
            if free >= self._plan.first and not (unjudged or self._outstanding or waiting):
                count = max(count, 1)  # do not leave the last rollouts unused
            if count < 1:
                return
            started = self.breeding.start(count)
            if isinstance(started, NoProposal):
                self._idle = started.why
                return
            if isinstance(started, Member):
                continue  # a merge, made without a proposer
            self._begin("propose", started, self.breeding.work(started))

    def _ahead(self) -> int:
        """Number of rollouts for which proposals are drafted before slots are free.

        A draft takes as long as several rollouts. While much budget is left, waiting for feedback
        costs more than a draft would gain from it.
        """
        if self._search_left() > EAGER * self._at_once:
            return self._at_once
        return self._plan.first

    # Work in progress.

    def _begin(self, kind: str, job: Job, work: Coroutine[Any, Any, Any]) -> None:
        name = f"{kind}/{self._started:06d}"
        self._started += 1
        self._jobs[name] = job
        self._pending[name] = asyncio.create_task(work)

    def _roll(self, member: Member, task_ids: Sequence[str]) -> None:
        tasks = tuple(self._tasks[task] for task in task_ids)
        member.under_way.update(task_ids)
        self.parts.began(member, len(tasks))
        self.ledger.commit(member.candidate, tasks)
        self._outstanding += len(tasks)
        check = not member.evaluations and member.parents != ()
        if check:
            self.testing.began()
        job = RunningRollouts(candidate=member.candidate, tasks=tasks, member=member)
        self._begin("evaluate", job, self._evaluated(member.candidate, tasks, check))

    def _roll_val(self, candidate: Candidate, tasks: Sequence[Task]) -> None:
        self.ledger.commit(candidate, tasks)
        self._outstanding += len(tasks)
        self.final.started(candidate, tasks)
        job = RunningRollouts(candidate=candidate, tasks=tuple(tasks))
        self._begin("compare", job, self._evaluated(candidate, tasks, False))

    async def _evaluated(
        self, candidate: Candidate, tasks: Sequence[Task], check: bool
    ) -> list[Evaluation] | RefusedCandidate:
        if check:
            problem = await self._lab.check(candidate)
            if problem:
                return RefusedCandidate(problem)
        return await self._lab.evaluate(candidate, tasks)

    async def _drop_proposals(self) -> None:
        drafts = {name: job for name, job in self._jobs.items() if isinstance(job, StartedProposal)}
        for name in drafts:
            self._pending.pop(name).cancel()
            del self._jobs[name]
        if drafts:
            await self._lab.drop([job.step for job in drafts.values()])

    # Handling results.

    def _take(self, job: Job, task: asyncio.Task[Any]) -> None:
        if isinstance(job, StartedProposal):
            self._take_drafts(job, task)
            return
        if isinstance(job, RunningTests):
            self.judging.tested(job.member, task.result())
            return
        self._outstanding -= len(job.tasks)
        try:
            found = task.result()
        except BudgetExhausted:
            # Out of dollars: rollouts cost more than earlier ones.
            self.ledger.release(job.candidate, job.tasks)
            self.ended = self.ended or SPENT
            if job.member is None:
                self.final.gave_up(job.candidate)
            else:
                self.judging.unrun(job.member, [t.id for t in job.tasks])
            return
        if isinstance(found, RefusedCandidate):
            assert job.member is not None
            self.ledger.release(job.candidate, job.tasks)
            self.parts.dropped(len(job.tasks))
            self.judging.refused(job.member, found.why)
            return
        self.ledger.note(found)
        if job.member is None:
            self.final.take(job.candidate, found)
        else:
            self.judging.take(job.member, found)

    def _take_drafts(self, started: StartedProposal, task: asyncio.Task[Any]) -> None:
        drafts: Sequence[Draft] = ()
        try:
            drafts = task.result()
        except CoachUnavailable as error:
            self.roster.lost(started.proposer.name, error)
            if self.roster.is_empty and not self.judging.kept:
                raise
        except BudgetExhausted:
            self.roster.lost(started.proposer.name, None)
        self.breeding.take(started, drafts)


def _on_train(job: Job) -> int:
    """Number of rollouts of a job on train tasks; 0 for other jobs."""
    return len(job.tasks) if isinstance(job, RunningRollouts) and job.member is not None else 0
