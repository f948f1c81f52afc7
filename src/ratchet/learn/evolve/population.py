"""The population: members on islands, a Pareto front over tasks, and a diversity archive.

Parents come from three sources: the best members, drawn by each one's probability of being the best
(Thompson sampling); the Pareto front over tasks, in proportion to the tasks on which a member is
the best (GEPA: Agrawal et al. 2025); and the archive, which retains the best of each kind
(MAP-Elites: Mouret & Clune 2015), whatever its score.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Literal, TypeAlias

from ratchet.learn.race import EVEN, Race, RaceEntry
from ratchet.llm import Reply
from ratchet.types import Candidate, Code, PromptTemplate, Resource

State: TypeAlias = Literal["racing", "kept", "dropped"]

EXPLOIT, FRONT = 0.75, 0.17
"""Shares of parents drawn from the best and from the front; the rest comes from the archive."""

TIRED = 0.35
"""Rate at which a parent's weight decays with each child that failed."""


class Member(RaceEntry):
    """A candidate in the search."""

    def __init__(
        self,
        number: int,
        candidate: Candidate,
        *,
        parents: Sequence[Member] = (),
        proposer: str = "",
        operator: str = "",
        replies: Sequence[Reply] = (),
        island: int = 0,
    ) -> None:
        super().__init__(number, candidate)
        self.parent: Member | None = parents[0] if parents else None
        self.parents = tuple(parents)
        self.proposer = proposer
        self.operator = operator
        self.replies = tuple(replies)
        """The coach's replies that it was made from."""
        self.islands = {island}
        self.state: State = "racing"
        self.under_way: set[str] = set()
        """Train tasks in flight."""
        self.first: tuple[str, ...] = ()
        """Train tasks of its first part."""
        self.changed: tuple[str, ...] = ()
        """Names of the resources that differ from its parent's."""
        self.tested = False
        """Whether the repository's own tests have run on it."""
        self.refused = ""
        """Why the tests refused it; empty if they did not."""
        self.waited = False
        """Whether it was ever paused in favour of new drafts."""
        self.failed_children = 0
        self.accepted = ""

    def ancestors(self) -> list[Member]:
        """Itself and all its ancestors, nearest first."""
        found: dict[int, Member] = {}
        waiting: list[Member] = [self]
        while waiting:
            member = waiting.pop(0)
            if member.number not in found:
                found[member.number] = member
                waiting.extend(member.parents)
        return list(found.values())


class Population:
    """Accepted members, and the selection of parents among them.

    Args:
        baseline: The common ancestor of all members.
        race: The race with the estimates of their worth.
        islands: Number of islands.
        migrate_every: Number of accepted members between migrations of each island's best to the
            next.
    """

    def __init__(
        self, baseline: Member, race: Race[Member], *, islands: int, migrate_every: int
    ) -> None:
        self.baseline = baseline
        self.members: list[Member] = [baseline]
        self._race = race
        self._islands = islands
        self._migrate_every = migrate_every
        self._kinds: dict[int, tuple[int, ...]] = {}
        baseline.islands = set(range(islands))

    def keep(self, member: Member) -> None:
        """Add a member; every `migrate_every` members, each island's best migrates to the next."""
        self.members.append(member)
        if self._islands > 1 and len(self.members) % self._migrate_every == 0:
            for island in range(self._islands):
                self.best(island).islands.add((island + 1) % self._islands)

    def best(self, island: int | None = None) -> Member:
        """The member with the highest estimate; the oldest among equals."""
        return self._race.best(self.on(island))

    def on(self, island: int | None) -> list[Member]:
        """Members of one island, or of all."""
        return [m for m in self.members if island is None or island in m.islands]

    def parent(self, island: int, rng: random.Random) -> Member:
        """A parent for the island's next proposal."""
        members = self.on(island)
        draw = rng.random()
        if draw < EXPLOIT or len(members) == 1:
            return self._likely_best(members, rng)
        if draw < EXPLOIT + FRONT:
            weights = front(members)
            chosen = rng.choices(list(weights), [float(w) for w in weights.values()])[0]
            return next(m for m in members if m.number == chosen)
        return rng.choice(self.elites(island))

    def elites(self, island: int) -> list[Member]:
        """The best member of each kind on an island."""
        cells: dict[tuple[int, ...], Member] = {}
        for member in self.on(island):
            cell = self._kinds.get(member.number)
            if cell is None:
                cell = kind(member.candidate, self.baseline.candidate)
                self._kinds[member.number] = cell
            known = cells.get(cell)
            if known is None or self._mean(member) > self._mean(known):
                cells[cell] = member
        return list(cells.values())

    def complement(self, member: Member, island: int, best: float) -> Member | None:
        """The member with the best scores on the tasks that this one fails; None if no gain.

        Ancestors and descendants are left out: one of the two then has what the other has.
        """
        line = {one.number for one in member.ancestors()}
        failing = [task for task in member.failing(best) if task in member.scores]
        gains = {
            other.number: sum(
                max(0.0, other.scores[task] - member.scores[task])
                for task in failing
                if task in other.scores
            )
            for other in self.on(island)
            if other.number not in line and member not in other.ancestors()
        }
        if not gains or max(gains.values()) <= EVEN:
            return None
        number = max(gains, key=lambda n: (gains[n], n))
        return next(m for m in self.members if m.number == number)

    def _mean(self, member: Member) -> float:
        return self._race.standing(member).mean

    def _likely_best(self, members: Sequence[Member], rng: random.Random) -> Member:
        def drawn(member: Member) -> float:
            standing = self._race.standing(member)
            tired = TIRED * standing.deviation * math.log1p(member.failed_children)
            return standing.mean + rng.gauss(0.0, standing.deviation) - tired

        return max((drawn(member), member.number, member) for member in members)[2]


def front(members: Sequence[Member]) -> dict[int, int]:
    """The Pareto front over tasks: number of tasks on which each member is the best, by number.

    A member is left off if another one is as good on each task where it is the best.
    """
    winners: dict[str, set[int]] = {}
    top: dict[str, float] = {}
    for member in members:
        for task, value in member.scores.items():
            if task not in top or value > top[task] + EVEN:
                top[task] = value
                winners[task] = {member.number}
            elif value >= top[task] - EVEN:
                winners[task].add(member.number)
    means = {member.number: (member.mean(), member.number) for member in members}
    for number in sorted(means, key=lambda n: means[n]):
        mine = [task for task, best in winners.items() if number in best]
        if all(len(winners[task]) > 1 for task in mine):
            for task in mine:
                winners[task].discard(number)
    counts: dict[int, int] = {}
    for best in winners.values():
        for number in sorted(best):
            counts[number] = counts.get(number, 0) + 1
    return counts or {members[0].number: 1}


def kind(candidate: Candidate, baseline: Candidate) -> tuple[int, ...]:
    """The archive cell of a candidate: changed resources, their lengths and their similarities.

    Returns:
        For each text or code: its length relative to the source's own in half powers of two, and
        its similarity to the source's own in quarters.
    """
    cell: list[int] = []
    for name, resource in candidate.resources.items():
        if isinstance(resource, PromptTemplate | Code):
            text, own = _text(resource), _text(baseline.resources[name])
            cell.append(round(2 * math.log2((len(text) + 20) / (len(own) + 20))))
            likeness = 1.0 if text == own else _likeness(text, own)
            cell.append(math.floor(4 * likeness))
    return tuple(cell)


def _text(resource: Resource) -> str:
    return resource.source if isinstance(resource, Code) else str(resource)


def _likeness(text: str, own: str) -> float:
    return SequenceMatcher(None, text.split(), own.split(), autojunk=False).ratio()
