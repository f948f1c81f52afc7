"""Breeding: selects parents, operators and proposers, and turns drafts into members."""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from ratchet.learn.attribution import blame
from ratchet.learn.evidence import EvidenceSelector, Example, TriedChange, example_of, tried_change
from ratchet.learn.evolve.budget import SearchLedger, SearchPlan
from ratchet.learn.evolve.crossover import Crossover
from ratchet.learn.evolve.judging import Judging
from ratchet.learn.evolve.novelty import Novelty
from ratchet.learn.evolve.population import Member
from ratchet.learn.evolve.roster import ProposerRoster
from ratchet.learn.evolve.settings import SearchSettings
from ratchet.learn.lab import Lab
from ratchet.learn.proposers import Draft, ProposalRequest, Proposer
from ratchet.learn.race import EVEN
from ratchet.learn.work import Evaluation
from ratchet.types import Resource

SELDOM = 0.25
"""Survival rate of a proposer's drafts below which their first parts are shorter."""

DRAWS = 4
"""Number of parents drawn before the best one with something to improve is taken."""

DECLINED = 3
"""Number of answers in a row that nothing should change, after which the coach is no longer asked
about a parent, until that has run more tasks."""

SUCCESSES = 2
"""Maximum number of successful rollouts shown to the coach in one request."""

LINEAGE, SIBLINGS = 4, 6
"""Maximum number of earlier changes told to the coach: those that made the parent, and those tried
on it."""

ALGORITHM = "evolve"


class StartedProposal(msgspec.Struct, frozen=True, kw_only=True):
    """A proposal in progress."""

    proposer: Proposer
    parent: Member
    inspiration: Member | None
    targets: tuple[str, ...]
    examples: tuple[Evaluation, ...]
    first: int
    """Number of examples chosen for the first request."""
    overview: str
    """What the parent scored, and its kinds of failure."""
    count: int
    calls: int
    """Number of coach calls reserved for it."""
    island: int
    seed: int
    step: str
    weights: dict[str, float]
    """Weights of operators, by name."""
    shares: dict[str, float]
    """Survival rate of changes to each target, by name."""
    tried: tuple[TriedChange, ...]


class NoProposal(msgspec.Struct, frozen=True):
    """No proposal can start now."""

    why: str = ""
    """Why, as a clause, if that is not for want of a proposer."""


class Breeding:
    """Makes new candidates from existing ones.

    Args:
        lab: The lab to search in.
        plan: Sizes of the search.
        settings: Options of the user.
        judging: State of the candidates.
        ledger: Committed spending.
        roster: The available proposers.
    """

    def __init__(
        self,
        lab: Lab,
        plan: SearchPlan,
        settings: SearchSettings,
        judging: Judging,
        ledger: SearchLedger,
        roster: ProposerRoster,
    ) -> None:
        self._lab = lab
        self._plan = plan
        self._settings = settings
        self._judging = judging
        self._ledger = ledger
        self._roster = roster
        self._rng = lab.rng
        self._novelty = Novelty()
        self._novelty.refusal(lab.baseline)
        self._crossing = Crossover(lab, judging)
        judging.on_kept = self._crossing.kept
        judging.on_ran = roster.ran
        judging.on_judged = roster.judged
        self._numbers = 0
        self._steps = 0
        self._wanted: dict[int, int] = {}
        self._evidence = EvidenceSelector()
        self._spared: dict[int, int] = {}
        """Members that the coach is no longer asked about: number of tasks that they had run when
        that was decided, by member number."""
        self._declined: Counter[int] = Counter()
        """Number of answers in a row that nothing should change, by member number."""
        self._says_all = False
        """Whether the coach, asked again, had nothing to add to its last change: then each draft
        takes one step."""
        self.unchanged = 0
        """Number of drafts that the coach declined to make."""
        self.repeated = 0
        """Number of drafts that were duplicates."""
        self.unusable = 0
        """Number of drafts without usable content."""
        self.made: dict[str, int] = {}
        """Number of candidates made, by proposer."""
        self.last_problem = ""

    def wanted_tasks(self, member: Member) -> int:
        """Number of train tasks a member should run before it is a parent."""
        return self._wanted.get(member.number, 0)

    def start(self, count: int) -> StartedProposal | Member | NoProposal:
        """Select the next change.

        Args:
            count: Number of drafts wanted; proposers that use a coach make one at a time.

        Returns:
            A proposal to work on, or a new member merged from two others, or `NoProposal`.
        """
        for merged in self._crossing.merges():
            member = self._member(
                merged.draft, merged.parents, "merge", merged.island, merged.tasks
            )
            if member is not None:
                return member
        island = self._steps % self._plan.islands
        found = self._parent(island)
        if isinstance(found, NoProposal):
            return found
        parent, able = found
        name = self._judging.bandit.choose(able, self._rng)
        proposer, targets = self._roster.proposer(name), able[name]
        chosen: tuple[Evaluation, ...] = ()
        if proposer.coach_calls:
            chosen = self._evidence.choose(
                parent,
                failures=self._settings.examples,
                successes=SUCCESSES,
                top=self._judging.top,
            )
            if not chosen:
                self._spare(parent)
                return self.start(count)
        inspiration = None
        if proposer.coach_calls and self._rng.random() < self._settings.crossover:
            inspiration = self._judging.population.complement(parent, island, self._judging.top)
        self._steps += 1
        calls = int(min(proposer.coach_calls, self._ledger.calls_left()))
        if self._says_all:
            calls = min(calls, 1)
        self._ledger.reserve_calls(calls)
        prefix = f"{name}/"
        arms = [arm for arm in self._judging.bandit.seen() if arm.startswith(prefix)]
        weights = self._judging.bandit.weights(arms)
        return StartedProposal(
            proposer=proposer,
            parent=parent,
            inspiration=inspiration,
            targets=tuple(targets),
            examples=(*chosen, *self._further(parent, chosen))
            if chosen
            else self._examples(parent),
            first=len(chosen),
            overview=self._evidence.overview(parent, self._judging.top) if chosen else "",
            count=1 if proposer.coach_calls else count,
            calls=calls,
            island=island,
            seed=self._rng.getrandbits(48),
            step=f"evolve/{self._steps:06d}",
            weights={arm.removeprefix(prefix): weight for arm, weight in weights.items()},
            shares={t: self._judging.bandit.share(f"target/{t}") for t in targets},
            tried=self._tried(parent),
        )

    async def work(self, started: StartedProposal) -> Sequence[Draft]:
        """Gather a proposer's input and have it draft."""
        targets = started.targets
        examples: tuple[Example, ...] = ()
        if not started.proposer.coach_calls:
            examples = tuple(example_of(evaluation) for evaluation in started.examples)
        else:
            spans = await asyncio.gather(*map(self._lab.spans, started.examples))
            if len(targets) > 1:
                weights = dict(started.shares)
                for evaluation, seen in zip(started.examples, spans, strict=True):
                    blamed = blame(
                        {name: started.parent.candidate.resources[name] for name in targets},
                        seen,
                        error=evaluation.rollout.error,
                        rationales=[s.rationale for s in evaluation.scores.values()],
                    )
                    for name, share in blamed.items():
                        weights[name] += 2 * share
                rng = random.Random(started.seed)  # noqa: S311 - reproducible, not secret
                targets = tuple(rng.choices(targets, [weights[t] for t in targets]))
            examples = tuple(
                example_of(evaluation, seen, remark=_remark(started.parent, evaluation))
                for evaluation, seen in zip(started.examples, spans, strict=True)
            )
        inspiration = started.inspiration
        case = ProposalRequest(
            step=started.step,
            parent=started.parent.candidate,
            targets=targets,
            examples=examples,
            first=started.first,
            overview=started.overview,
            tried=started.tried,
            inspiration=inspiration.candidate if inspiration else None,
            comparison=_comparison(started.parent, inspiration) if inspiration else "",
            weights=started.weights,
            baseline=self._lab.baseline,
            count=started.count,
            calls=started.calls,
            seed=started.seed,
            max_growth=self._settings.max_growth,
        )
        return await started.proposer.propose(case, self._lab)

    def take(self, started: StartedProposal, drafts: Sequence[Draft]) -> None:
        """Turn a proposer's drafts into members; new ones join the race."""
        name = started.proposer.name
        calls = sum(reply.requests > 0 for draft in drafts for reply in draft.replies)
        self._ledger.settle_calls(started.calls, calls)
        for draft in drafts:
            for reply in draft.replies:
                self._ledger.note_cost(reply.cost.known_usd)
            parents = [started.parent]
            if started.inspiration is not None:
                parents.append(started.inspiration)
            self._answered(started, draft)
            if draft.declined:
                continue
            if draft.problem:
                self.unusable += 1
                self.last_problem = draft.problem
                for reply in draft.replies:
                    self._lab.credit(reply, False)
                made = None
            else:
                tasks = self._first_tasks(
                    started.parent, started.examples, self._first_part(started.proposer)
                )
                made = self._member(draft, parents, name, started.island, tasks)
            self._roster.drafted(started.proposer, draft, new=made is not None)

    def _answered(self, started: StartedProposal, draft: Draft) -> None:
        """Note what an answer of the coach says about asking it again."""
        if not draft.replies:
            return
        parent = started.parent
        if draft.declined:
            self.unchanged += 1
            self._declined[parent.number] += 1
            if self._declined[parent.number] >= DECLINED:
                self._spare(parent)
        else:
            del self._declined[parent.number]
        if len(draft.replies) > 1:
            self._says_all = draft.asked_in_vain

    def _spare(self, parent: Member) -> None:
        """Ask no more about a member until it has run more tasks."""
        self._spared[parent.number] = len(parent.evaluations)
        self._want_more(parent)

    def _want_more(self, parent: Member) -> None:
        every, ran = len(self._lab.train), len(parent.evaluations)
        self._wanted[parent.number] = min(every, ran + self._plan.first)

    def _parent(self, island: int) -> tuple[Member, dict[str, list[str]]] | NoProposal:
        """A parent with something to improve, and what each proposer can change of it.

        Parents with fewer than two failures are marked to run more tasks. One whose failures the
        coach has seen is not: another draft from the same failures costs no more rollouts, and may
        be better. It runs more when there is no other selection of them to show (`_spare`).
        """
        failing, top = False, self._judging.top
        for parent in self._candidates(island):
            low = len(parent.failing(top))
            if low < 2:
                self._want_more(parent)
            if not low:
                continue
            failing = True
            able = self._roster.able(parent)
            is_spared = self._spared.get(parent.number, -1) >= len(parent.evaluations)
            if is_spared or self._is_surpassed(parent):
                able = {n: t for n, t in able.items() if not self._roster.proposer(n).coach_calls}
            if able:
                return parent, able
        if not failing:
            return NoProposal("no candidate leaves a failure on a train task that it ran")
        return NoProposal("the coach has no change left for any candidate")

    def _is_surpassed(self, parent: Member) -> bool:
        """Whether the leader solves all that a member fails: its failures teach no more."""
        best, top = self._judging.population.best(), self._judging.top
        return best is not parent and all(
            best.scores.get(task, -math.inf) >= top - EVEN for task in parent.failing(top)
        )

    def _candidates(self, island: int) -> Iterator[Member]:
        """Some drawn parents, then all members of the island, best first."""
        population = self._judging.population
        for _ in range(DRAWS):
            yield population.parent(island, self._rng)
        standing = self._judging.race.standing
        yield from sorted(population.on(island), key=lambda m: (-standing(m).mean, m.number))

    def _further(self, parent: Member, chosen: Sequence[Evaluation]) -> list[Evaluation]:
        """Low rollouts for the later steps of a draft: those that its first does not show."""
        known = {evaluation.task.id for evaluation in chosen}
        low = self._evidence.failures(parent, self._judging.top)
        return [e for e in low if e.task.id not in known][: 2 * self._settings.examples]

    def _examples(self, parent: Member) -> tuple[Evaluation, ...]:
        """Examples for a proposer without a coach: mostly failures, and a success."""
        failing = parent.failing(self._judging.top)
        count = min(len(failing), 3 * self._settings.examples)
        # The worst half is entered twice, so it is likelier to be drawn; the draw differs per
        # critique.
        urn = failing + failing[: (len(failing) + 1) // 2]
        chosen: list[str] = []
        while len(chosen) < count:
            task = self._rng.choice(urn)
            chosen.append(task)
            urn = [other for other in urn if other != task]
        solved = [task for task in parent.evaluations if task not in failing]
        if solved:
            chosen.append(self._rng.choice(solved))
        return tuple(parent.evaluations[task] for task in chosen)

    def _tried(self, parent: Member) -> tuple[TriedChange, ...]:
        """The changes that made a parent, and those tried on it."""
        line: list[Member] = []
        one = parent
        while one.parent is not None:
            line.insert(0, one)
            one = one.parent
        made = [tried_change(member, kept=True) for member in line[-LINEAGE:]]
        return (*made, *self._judging.children.get(parent.number, [])[-SIBLINGS:])

    def _first_part(self, proposer: Proposer) -> int:
        """Size of a first part: smaller where few drafts survive, to find those sooner."""
        first = self._plan.first
        share = self._judging.bandit.share(proposer.name)
        parts = 1 if proposer.coach_calls and share >= SELDOM else 2
        return max(min(2, first), first // (parts + (share < SELDOM / 2)))

    def _first_tasks(
        self, parent: Member, examples: Sequence[Evaluation], first: int
    ) -> tuple[str, ...]:
        """The first tasks of a change: those it was made for, and one more."""
        top = self._judging.top
        shown_ids = [e.task.id for e in examples if e.task.id in parent.scores]
        failing = [task for task in shown_ids if parent.scores[task] < top - EVEN]
        others = [task for task in parent.scores if task not in failing]
        solved = [task for task in others if parent.scores[task] >= top - EVEN] or others
        chosen = failing[: max(1, first - 1 if solved else first)]
        chosen += self._rng.sample(solved, min(len(solved), first - len(chosen)))
        left = [task for task in parent.scores if task not in chosen]
        chosen += self._rng.sample(left, min(len(left), first - len(chosen)))
        return tuple(chosen)

    def _member(
        self,
        draft: Draft,
        parents: Sequence[Member],
        proposer: str,
        island: int,
        tasks: Sequence[str],
    ) -> Member | None:
        """A new member of the race; None if the draft is a duplicate."""
        parent = parents[0]
        resources: dict[str, Resource] = dict(draft.resources)
        candidate = self._lab.propose(
            resources, algorithm=ALGORITHM, reason=draft.reason, parent=parent.candidate
        )
        candidate = msgspec.structs.replace(
            candidate, parents=tuple(dict.fromkeys(member.id for member in parents))
        )
        if self._novelty.refusal(candidate):
            self.repeated += 1
            return None
        self._numbers += 1
        member = Member(
            self._numbers,
            candidate,
            parents=parents,
            proposer=proposer,
            operator=draft.operator,
            replies=draft.replies,
            island=island,
        )
        member.first = tuple(tasks)
        member.changed = tuple(resources)
        self._judging.racing.append(member)
        self.made[proposer] = self.made.get(proposer, 0) + 1
        return member


def _remark(member: Member, evaluation: Evaluation) -> str:
    """Whether the version before failed on the same task."""
    before = member.parent.scores.get(evaluation.task.id) if member.parent else None
    if before is None:
        return ""
    return f"the version before scored {before:.3g} here"


def _comparison(member: Member, other: Member) -> str:
    """What two members scored on the tasks that both ran."""
    shared = [task for task in member.scores if task in other.scores]
    one, two = (sum(m.scores[t] for t in shared) / len(shared) for m in (member, other))
    return f"It scored {two:.2f} where the current one scored {one:.2f}, on {len(shared)} tasks."
