"""Breeding: selects parents, operators and proposers, and turns drafts into members."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import msgspec

from ratchet.learn.attribution import blame
from ratchet.learn.evolve.budget import SearchLedger, SearchPlan
from ratchet.learn.evolve.crossover import Crossover
from ratchet.learn.evolve.judging import Judging
from ratchet.learn.evolve.novelty import Novelty
from ratchet.learn.evolve.population import Member
from ratchet.learn.evolve.roster import ProposerRoster
from ratchet.learn.evolve.settings import SearchSettings
from ratchet.learn.lab import Lab
from ratchet.learn.proposers import Draft, Example, ProposalRequest, Proposer, TriedChange, shown
from ratchet.learn.race import EVEN
from ratchet.learn.work import Evaluation
from ratchet.types import Resource

SELDOM = 0.25
"""Survival rate of a proposer's drafts below which their first parts are shorter."""

DRAWS = 4
"""Maximum number of parents drawn to find one with something to improve."""

ALGORITHM = "evolve"


class StartedProposal(msgspec.Struct, frozen=True, kw_only=True):
    """A proposal in progress."""

    proposer: Proposer
    parent: Member
    inspiration: Member | None
    targets: tuple[str, ...]
    examples: tuple[Evaluation, ...]
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
        parent = self._parent(island)
        if parent is None:
            return NoProposal()
        able = self._roster.able(parent)
        if not able:
            return NoProposal()
        name = self._judging.bandit.choose(able, self._rng)
        proposer, targets = self._roster.proposer(name), able[name]
        inspiration = None
        if proposer.coach_calls and self._rng.random() < self._settings.crossover:
            inspiration = self._judging.population.complement(parent, island, self._judging.top)
        self._steps += 1
        calls = int(min(proposer.coach_calls, self._ledger.calls_left()))
        self._ledger.commit_calls(calls)
        prefix = f"{name}/"
        arms = [arm for arm in self._judging.bandit.seen() if arm.startswith(prefix)]
        weights = self._judging.bandit.weights(arms)
        tried = self._judging.children.get(parent.number, [])[-6:]
        return StartedProposal(
            proposer=proposer,
            parent=parent,
            inspiration=inspiration,
            targets=tuple(targets),
            examples=self._examples(parent),
            count=1 if proposer.coach_calls else count,
            calls=calls,
            island=island,
            seed=self._rng.getrandbits(48),
            step=f"evolve/{self._steps:06d}",
            weights={arm.removeprefix(prefix): weight for arm, weight in weights.items()},
            shares={t: self._judging.bandit.share(f"target/{t}") for t in targets},
            tried=tuple(TriedChange(reason=reason, gain=gain) for reason, gain in tried),
        )

    async def work(self, started: StartedProposal) -> Sequence[Draft]:
        """Gather a proposer's input and have it draft."""
        targets = started.targets
        examples: tuple[Example, ...] = ()
        if not started.proposer.coach_calls:
            examples = tuple(shown(evaluation, ()) for evaluation in started.examples)
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
                shown(evaluation, seen)
                for evaluation, seen in zip(started.examples, spans, strict=True)
            )
        inspiration = started.inspiration
        case = ProposalRequest(
            step=started.step,
            parent=started.parent.candidate,
            targets=targets,
            examples=examples,
            tried=started.tried,
            inspiration=inspiration.candidate if inspiration else None,
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
        calls = sum(len(draft.replies) for draft in drafts)
        self._ledger.commit_calls(calls - started.calls)
        for draft in drafts:
            for reply in draft.replies:
                self._ledger.note_cost(reply.cost.known_usd)
            parents = [started.parent]
            if started.inspiration is not None:
                parents.append(started.inspiration)
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

    def _parent(self, island: int) -> Member | None:
        """A parent with something to improve; solved ones are marked to run more tasks."""
        every = len(self._lab.train)
        for _ in range(DRAWS):
            parent = self._judging.population.parent(island, self._rng)
            failing = len(parent.failing(self._judging.top))
            ran = len(parent.evaluations)
            if failing < 2 and ran < every:
                self._wanted[parent.number] = min(every, ran + self._plan.first)
            if failing:
                return parent
        return None

    def _examples(self, parent: Member) -> tuple[Evaluation, ...]:
        """Examples for a critique of a parent: mostly failures, and a success."""
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
