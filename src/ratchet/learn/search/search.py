"""The search: in each turn, candidates are drafted, raced on train tasks, and kept or dropped.

A turn drafts one rewrite by the coach and, for functions, a batch of mutants. All of them run a
first part of the tasks that their parents have run, then as many again, while the race allows. Only
then is the coach asked again, so that no request repeats what another has said. Nothing is in
flight between turns: a resumed run decides the same from the same results.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence

import msgspec

from ratchet.learn.algorithm import SPENT, SearchEnd
from ratchet.learn.attempts import attempt_of
from ratchet.learn.budget import BudgetExhausted
from ratchet.learn.lab import Lab
from ratchet.learn.length import longest
from ratchet.learn.mutations import Mutants, shapes_of
from ratchet.learn.race import SCORE_TOLERANCE, Race, RaceEntry, next_part, untried
from ratchet.learn.search import numbers
from ratchet.learn.search.coaching import Coaching, Rewrite
from ratchet.learn.search.novelty import Novelty
from ratchet.learn.search.plan import MIN_START_TASKS, SearchPlan, check_rest, rollouts_left
from ratchet.learn.work import FAILED_STATUSES, Evaluation, Proposal, require_scores
from ratchet.llm import Reply
from ratchet.observe.step_text import text_of
from ratchet.types import Candidate, Code, PromptTemplate, Task
from ratchet.types.wording import counted


class Member(RaceEntry):
    """A candidate of the search."""

    def __init__(
        self,
        number: int,
        candidate: Candidate,
        parent: Member | None = None,
        *,
        reply: Reply | None = None,
        task_ids: Sequence[str] = (),
    ) -> None:
        super().__init__(number, candidate, parent)
        self.origin = parent
        """Its parent entry; None for the source."""
        self.reply = reply
        """The coach's answer that it was made from."""
        self.is_reworded = reply is not None and _is_reworded(candidate, parent)
        """Whether the coach has changed a prompt: it takes more tasks to show the effect than for
        a change of code, and the candidate has cost a request."""
        self.shown = tuple(task_ids)
        """Tasks whose failures it is meant to fix."""
        self.is_tested = False
        """Whether the repository's own tests have run on it."""


class Search:
    """One search.

    Args:
        lab: The lab to search in.
        algorithm: Name recorded in candidates.
        plan: Makes the sizes of the search from what is left of the budget.
        coaching: The coach's side; None without a coach.
        mutates: Names of the functions that are mutated.
        max_candidates: Maximum number of candidates judged.
        patience: Number of candidates in a row without a better best after which it ends.
        max_growth: Maximum length of a text, as a multiple of the source's own.
    """

    def __init__(
        self,
        lab: Lab,
        algorithm: str,
        plan: Callable[[], SearchPlan],
        *,
        coaching: Coaching | None,
        mutates: Sequence[str] = (),
        max_candidates: int | None = None,
        patience: int | None = None,
        max_growth: float = 4.0,
    ) -> None:
        self._lab = lab
        self._algorithm = algorithm
        self._make_plan = plan
        self.plan = SearchPlan(start=0, first=0, draft=0, val=0, finalists=0, mutants=0)
        """Sizes of the search; made when it begins."""
        self.coaching = coaching
        self._mutates = tuple(mutates)
        self._mutants = Mutants(lab.rng, shapes_of(task.input for task in lab.train))
        self._max_candidates = max_candidates
        self._patience = patience
        self._max_growth = max_growth
        self._order: list[Task] = lab.shuffled(f"{algorithm}/train", lab.train)
        self.val: list[Task] = lab.shuffled(f"{algorithm}/val", lab.val)
        self.race: Race[Member] = Race()
        self.source = Member(0, lab.baseline)
        self.kept: list[Member] = [self.source]
        """The source, and every candidate that was better than its parent."""
        self._novelty = Novelty()
        self._novelty.is_new(lab.baseline)
        self._drafts = 0
        self._idle = 0
        """Number of mutations in a row that gave no new candidate that runs."""
        self._quiet = 0
        """Number of candidates in a row that were not better than the best."""
        self.own_val = 0
        """Val tasks that the source has yet to run."""
        self._refused: set[int] = set()
        """Numbers of the candidates that the checks or the repository's tests refused."""
        self.judged = 0
        self.refused_by_checks = 0
        self.last_refusal = ""

    @property
    def leader(self) -> Member:
        """The best entry so far."""
        return self.race.best(self.kept)

    async def run(self, *, with_val: bool = True) -> SearchEnd:
        """Search until the budget is spent or nothing is left to try.

        Args:
            with_val: Whether the source runs its val tasks beside its first train tasks.

        Raises:
            CoachUnavailable: Only the coach can change anything here, and it is not available.
        """
        await self._begin(with_val)
        turn = 0
        while True:
            end = self._ended(turn)
            if end is not None:
                return end
            members = await self._drafted(turn)
            if members is None:
                return self._nothing_left()
            await self._raced(members)
            turn += 1

    async def _begin(self, with_val: bool) -> None:
        lab, source = self._lab, self.source.candidate
        if lab.budget.dollars is not None:  # what a rollout costs decides how many there are
            self.race.add(self.source, await lab.evaluate(source, self._order[:MIN_START_TASKS]))
            check_rest(lab)
        plan = self.plan = self._make_plan()
        if not with_val:
            self.own_val = plan.val
        first, _ = await asyncio.gather(
            lab.evaluate(source, self._order[: plan.start]),
            lab.evaluate(source, self.val[: plan.val if with_val else 0]),
        )
        self.race.add(self.source, first)
        require_scores(self.source.evaluations.values(), "train")

    def finalists(self) -> list[Member]:
        """Entries to compare with the source on val, best first."""
        worth = {member.number: self.race.standing(member).mean for member in self.kept}
        better = [m for m in self.kept if m.parent and worth[m.number] > worth[0]]
        better.sort(key=lambda m: (-round(worth[m.number], 6), _length(m), m.number))
        return better[: self.plan.finalists]

    def _left(self) -> float:
        """Rollouts that the race may still spend."""
        return max(0.0, rollouts_left(self._lab) - self.plan.reserve - self.own_val)

    def _ended(self, turn: int) -> SearchEnd | None:
        most = self._max_candidates
        if most is not None and self.judged >= most:
            return SearchEnd("limit", f"the limit of {counted(most, 'candidate')} was reached")
        if self._patience is not None and self._quiet >= self._patience:
            return SearchEnd(
                "idle", f"{counted(self._quiet, 'candidate')} in a row brought nothing better"
            )
        leader = self.leader
        if not leader.failing(self.race.top) and not untried(leader, self._order):
            return SearchEnd("solved", "its best candidate solves every train task")
        if self._left() < self.plan.first:
            return SPENT
        return None if self._lab.may_continue(f"{self._algorithm}/{turn:04d}") else SPENT

    def _nothing_left(self) -> SearchEnd:
        if not self.leader.failing(self.race.top):
            return SearchEnd("solved", "its best candidate solves every train task that was tried")
        end = self.coaching.end if self.coaching else None
        if end is not None:
            return end
        return SearchEnd("no_gain", "the coach was asked about every failure")

    # Drafting.

    async def _drafted(self, turn: int) -> list[Member] | None:
        """The candidates of a turn; None if nothing more can be drafted."""
        rewrites = await self._rewritten(turn) if self.coaching else None
        mutants = self._mutated() if self._mutates else None
        if rewrites is None and mutants is None:
            return None
        return [*(rewrites or ()), *(mutants or ())]

    async def _rewritten(self, turn: int) -> list[Member] | None:
        """The coach's rewrite; None if there is nothing to ask it about."""
        coaching = self.coaching
        assert coaching is not None
        if coaching.ended() is not None:
            return None
        failures = await coaching.failures(self._preferred(), self.race.top)
        while failures is None:
            # Its answers on all that is known are used up: what nobody has run may show more.
            if not await self._grow(self.plan.first):
                return None
            failures = await coaching.failures(self._preferred(), self.race.top)
        rewrite = await coaching.rewrite(failures, turn)
        if rewrite is None:
            return None
        return self._new_member(rewrite)

    def _new_member(self, rewrite: Rewrite) -> list[Member]:
        assert self.coaching is not None
        if rewrite.candidate is None:
            return []
        if not self._novelty.is_new(rewrite.candidate):
            why = f"It says the same as an earlier version. {rewrite.candidate.reason}"
            self.coaching.refused(why, rewrite.reply)
            return []
        parent = next(member for member in self.kept if member is rewrite.entry)
        return [
            self._member(
                rewrite.candidate, parent, reply=rewrite.reply, task_ids=rewrite.shown
            )
        ]  # fmt: skip

    def _preferred(self) -> list[Member]:
        """The leader, then the others that may be as good, best first."""
        leader = self.leader
        followers = [m for m in self.kept if m is not leader and self.race.may_lead(m, leader)]
        followers.sort(key=lambda m: (-self.race.standing(m).mean, m.number))
        return [leader, *followers]

    def _member(self, candidate: Candidate, parent: Member, **more: object) -> Member:
        self._drafts += 1
        return Member(self._drafts, candidate, parent, **more)  # type: ignore[arg-type]

    def _mutated(self) -> list[Member] | None:
        """A batch of mutants; None if mutation no longer yields anything new."""
        if self._idle >= numbers.MAX_IDLE_DRAFTS:
            return None
        lab, mutants = self._lab, list[Member]()
        for _ in range(self.plan.mutants):
            self._idle += 1
            parent, name = self._drawn_parent(), lab.rng.choice(self._mutates)
            code, own = parent.candidate.resources[name], lab.baseline.resources[name]
            donors = [m.candidate.resources[name] for m in self.kept if m is not parent]
            donor = lab.rng.choice(donors) if donors else None
            assert isinstance(code, Code)
            assert isinstance(own, Code)
            assert donor is None or isinstance(donor, Code)
            limit = longest(own.source, self._max_growth)
            mutant = self._mutants.of(code, limit, donor)
            if mutant is None:
                continue
            candidate = lab.propose(
                {name: mutant.code},
                algorithm=self._algorithm,
                reason=f"In {name!r}: {mutant.description}.",
                parent=parent.candidate,
            )
            if self._novelty.is_new(candidate):
                mutants.append(self._member(candidate, parent))
        return mutants

    def _drawn_parent(self) -> Member:
        """A kept entry, drawn by its chance of being the best (Thompson sampling)."""
        rng = self._lab.rng
        draws = []
        for member in self.kept:
            standing = self.race.standing(member)
            draws.append((rng.gauss(standing.mean, standing.deviation), member.number, member))
        return max(draws)[2]

    # Racing.

    async def _raced(self, members: Sequence[Member]) -> None:
        """Run candidates on task sets of doubling size, and decide on each."""
        faults = await asyncio.gather(*(self._lab.check(m.candidate) for m in members))
        racing = []
        for member, fault in zip(members, faults, strict=True):
            if fault:
                self._refuse(member, fault)
            else:
                racing.append(member)
        while racing:
            spent = await self._run_parts(racing)
            racing = await self._undecided(racing, last=spent)

    async def _run_parts(self, racing: Sequence[Member]) -> bool:
        """Run each candidate's next tasks; returns whether the budget ran out."""
        left = self._left()
        work: list[tuple[Member, list[Task]]] = []
        for member in racing:
            ahead = self._ahead(member)
            evaluated = len(member.evaluations)
            count = next_part(evaluated, self._first(member), evaluated + len(ahead))
            part = ahead[: count if left > count else int(left)]
            left -= len(part)
            if part:
                work.append((member, part))
        results = await asyncio.gather(
            *(self._lab.evaluate(member.candidate, part) for member, part in work),
            return_exceptions=True,
        )
        for (member, _), result in zip(work, results, strict=True):
            if isinstance(result, BudgetExhausted):
                left = 0
            elif isinstance(result, BaseException):
                raise result
            else:
                self.race.add(member, result)
        return left < 1 or not work

    def _first(self, member: Member) -> int:
        return self.plan.first if member.is_reworded else self.plan.draft

    async def _undecided(self, racing: Sequence[Member], *, last: bool) -> list[Member]:
        """Decide on the candidates that ran; returns those that race on."""
        on = []
        tests = asyncio.Semaphore(numbers.TESTS_AT_ONCE)

        async def tested(member: Member) -> str:
            async with tests:
                return await self._lab.test(member.candidate)

        going = {
            member.number: not last and bool(self._ahead(member)) and self._may_go_on(member)
            for member in racing
            if not self._is_out(member)
        }
        waiting = [
            member
            for member in racing
            if member.number in going
            and (going[member.number] or self._is_better(member))
            and not member.is_tested
            and self._lab.needs_test(member.candidate)
        ]
        faults = await asyncio.gather(*map(tested, waiting))
        for member, fault in zip(waiting, faults, strict=True):
            member.is_tested = True
            if fault:
                self._refuse(member, fault)
        for member in racing:
            if member.number in self._refused:
                continue
            if going.get(member.number):
                on.append(member)
            else:
                self._close(member, accepted=member.number in going and self._is_better(member))
        return on

    def _ahead(self, member: Member) -> list[Task]:
        """Tasks that its parent ran and a candidate has yet to run, the most revealing first."""
        parent = member.origin
        assert parent is not None
        return untried(member, telling(parent, self._order, member.shown, self.race.top))

    def _is_out(self, member: Member) -> bool:
        """Whether a candidate cannot be better: it is worse, broken, or answers as before."""
        parent = member.origin
        assert parent is not None
        if not member.scores:
            return True
        return (
            self.race.is_worse(member, len(parent.scores))
            or self._does_nothing(member, parent)
            or not _runs(member, parent)
        )

    def _does_nothing(self, member: Member, parent: Member) -> bool:
        """Whether a candidate answers like its parent on everything that it was meant to fix."""
        made_for = [task for task in member.shown if task in parent.scores]
        ran = all(task in member.scores for task in made_for)
        return ran and _is_same(member.evaluations, parent.evaluations)

    def _may_go_on(self, member: Member) -> bool:
        """Whether a candidate promises more than a new one."""
        if member.is_reworded and len(member.evaluations) < 2 * self.plan.first:
            return True
        if not self.race.may_lead(member, self.leader):
            return False
        # A rewrite cost a request, which is worth knowing all about.
        return member.is_reworded or math.fsum(self.race.gains(member)) > SCORE_TOLERANCE

    def _is_better(self, member: Member) -> bool:
        parent = member.origin
        assert parent is not None
        gained = math.fsum(member.differences()) > SCORE_TOLERANCE
        mean = self.race.standing(member).mean
        return gained and mean > self.race.standing(parent).mean + SCORE_TOLERANCE

    def _refuse(self, member: Member, fault: str) -> None:
        """Record that the checks or the repository's tests refused a candidate."""
        self.refused_by_checks += 1
        self.last_refusal = fault
        self._refused.add(member.number)
        if self.coaching is not None and member.reply is not None:
            self.coaching.refused(f"{fault} {member.candidate.reason}", member.reply)
        if member.evaluations:
            self._report(member, accepted="", refused=fault)

    def _close(self, member: Member, *, accepted: bool) -> None:
        """Keep or drop a candidate, and report it."""
        parent = member.origin
        assert parent is not None
        if not member.evaluations:
            return  # no rollouts were left for it
        if _runs(member, parent):
            self._idle = 0
        leader = self.leader
        if accepted:
            self.kept.append(member)
        better = accepted and self.leader is member and member is not leader
        self._quiet = 0 if better else self._quiet + 1
        if self.coaching is not None and member.reply is not None:
            self.coaching.judged(member.reply, accepted)
        if member.reply is not None or accepted:
            attempt = attempt_of(member.candidate, member.scores, parent.candidate, parent.scores)
            self._lab.attempted(msgspec.structs.replace(attempt, worst=_worst(member, parent)))
        self._report(member, accepted=member.gained() if accepted else "")

    def _report(self, member: Member, *, accepted: str, refused: str = "") -> None:
        leader = self.leader
        self._lab.judged(
            Proposal(
                number=self.judged,
                candidate_id=member.id,
                value=member.mean(),
                tasks=len(member.scores),
                pruned=not accepted,
                best=leader.mean(),
                rollouts=self._lab.spent.rollouts,
                accepted=accepted,
                refused=refused,
            )
        )
        self.judged += 1

    async def _grow(self, most: float) -> bool:
        """Run train tasks that the leader has not; returns whether there were any."""
        leader = self.leader
        room = min(most, self._left() - self.plan.first, len(self._order))
        tasks = untried(leader, self._order)[: max(0, int(room))]
        if not tasks:
            return False
        try:
            self.race.add(leader, await self._lab.evaluate(leader.candidate, tasks))
        except BudgetExhausted:
            return False
        return True


def telling(
    entry: RaceEntry, tasks: Sequence[Task], shown_ids: Sequence[str], top: float
) -> list[Task]:
    """The tasks that an entry ran, in the order that soonest separates a child from it.

    Tasks that it fails show what a change gains; those that it solves, what it breaks. A child
    should mend the failures that it was made for (`shown`) and others too, or it has memorised
    them. So the order cycles: three shown, one failed and not shown, one solved. A mutant was made
    for all failures.
    """
    failing = set(entry.failing(top))
    targets = set(shown_ids) or failing
    groups: dict[str, list[Task]] = {"shown": [], "failing": [], "solved": []}
    for task in tasks:
        if task.id in entry.scores:
            failed = "shown" if task.id in targets else "failing"
            groups[failed if task.id in failing else "solved"].append(task)
    ordered: list[Task] = []
    while any(groups.values()):
        for name in ("shown", "shown", "solved", "shown", "failing"):
            if groups[name]:
                ordered.append(groups[name].pop(0))
    return ordered


def _is_reworded(candidate: Candidate, parent: RaceEntry | None) -> bool:
    changed = candidate.changed_from(parent.candidate) if parent else ()
    return any(isinstance(candidate.resources[name], PromptTemplate) for name in changed)


def _runs(member: RaceEntry, parent: RaceEntry) -> bool:
    """Whether a candidate works: it may fail on every task only if its parent does too."""
    return any(
        e.rollout.status not in FAILED_STATUSES
        or (
            task in parent.evaluations
            and parent.evaluations[task].rollout.status in FAILED_STATUSES
        )
        for task, e in member.evaluations.items()
    )


def _is_same(mine: dict[str, Evaluation], parents: dict[str, Evaluation]) -> bool:
    """Whether a candidate's outputs equal its parent's on every task that both ran."""
    return all(
        evaluation.rollout.output == parents[task].rollout.output
        and evaluation.rollout.error == parents[task].rollout.error
        for task, evaluation in mine.items()
        if task in parents
    )


def _worst(member: RaceEntry, parent: RaceEntry) -> str:
    """A candidate's answer where it lost the most."""
    lost = {
        task: parent.scores[task] - v for task, v in member.scores.items() if task in parent.scores
    }
    task = max(lost, key=lambda task: lost[task], default="")
    if not task or lost[task] <= SCORE_TOLERANCE:
        return ""
    rollout = member.evaluations[task].rollout
    return text_of(rollout.output) if rollout.output is not None else rollout.error


def _length(entry: RaceEntry) -> int:
    return sum(len(str(resource)) for resource in entry.candidate.resources.values())
