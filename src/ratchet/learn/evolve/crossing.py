"""Crossing: pairs of kept candidates, each better than the other somewhere, become one."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ratchet.learn.evolve.judging import Judging
from ratchet.learn.evolve.merge import merge_candidates
from ratchet.learn.evolve.population import Member
from ratchet.learn.lab import Lab
from ratchet.learn.proposers import Draft
from ratchet.learn.race import EVEN
from ratchet.types import version_of

PARTNERS = 8
"""How many of the best a newly kept candidate is crossed with."""

LEAST_SHARE = 0.12
"""Share of surviving merges below which most pairs are not tried."""


class Merged(msgspec.Struct, frozen=True, kw_only=True):
    """Two candidates in one."""

    draft: Draft
    parents: tuple[Member, ...]
    island: int
    tasks: tuple[str, ...]
    """What it is to run first: where the second parent is better, then where the first is."""


class Crossing:
    """Pairs that wait to be merged.

    Args:
        lab: Where the search works.
        judging: What is known of the candidates.
    """

    def __init__(self, lab: Lab, judging: Judging) -> None:
        self._lab = lab
        self._judging = judging
        self._pairs: list[tuple[Member, Member]] = []

    def kept(self, member: Member) -> None:
        """A member was kept: pair it with those that it complements."""
        race = self._judging.race
        others = [m for m in self._judging.population.members if m is not member and m.parents]
        others.sort(key=lambda m: (-race.standing(m).mean, m.number))
        line = {one.number for one in member.ancestors()}
        for other in others[:PARTNERS]:
            if other.number in line or member.number in {m.number for m in other.ancestors()}:
                continue
            if complement(member, other) > EVEN:
                self._pairs.append((member, other))

    def merges(self) -> Iterator[Merged]:
        """Merges of the pairs that wait, the most promising first, as far as they can be made."""
        leader = self._judging.race.standing(self._judging.population.best()).mean
        while self._pairs:
            hopes = [self._hope(*pair) for pair in self._pairs]
            best = max(range(len(hopes)), key=lambda n: (hopes[n], n))
            if hopes[best] <= leader + EVEN:
                return
            one, other = self._pairs.pop(best)
            share = self._judging.bandit.share("merge")
            if share < LEAST_SHARE and self._lab.rng.random() > share / LEAST_SHARE:
                continue
            worth = [self._judging.race.standing(m).mean for m in (one, other)]
            if worth[1] > worth[0]:
                one, other = other, one
            merged = self._merge(one, other)
            if merged is not None:
                yield merged

    def _hope(self, one: Member, other: Member) -> float:
        """What a merge would be worth if it had the strengths of both."""
        race = self._judging.race
        worth = max(race.standing(member).mean for member in (one, other))
        shared = sum(task in other.scores for task in one.scores)
        return worth + complement(one, other) / max(1, shared)

    def _merge(self, one: Member, other: Member) -> Merged | None:
        theirs = {member.number for member in other.ancestors()}
        ancestor = next(m for m in one.ancestors() if m.number in theirs)
        resources = merge_candidates(one.candidate, other.candidate, ancestor.candidate)
        if resources is None:
            return None
        versions = one.candidate.versions()
        changed = {n: r for n, r in resources.items() if version_of(r) != versions[n]}
        first = self._judging.first
        shared = [task for task in one.scores if task in other.scores]
        better = sorted(shared, key=lambda t: one.scores[t] - other.scores[t])
        tasks = [t for t in better if other.scores[t] > one.scores[t] + EVEN][: max(1, first - 1)]
        guards = [t for t in reversed(better) if t not in tasks]
        tasks += guards[: first - len(tasks)]
        reason = (
            f"It joins what two candidates changed: {_short(one.candidate.reason)}; and"
            f" {_short(other.candidate.reason)}."
        )
        return Merged(
            draft=Draft(resources=changed, operator="merge", reason=reason),
            parents=(one, other),
            island=min(one.islands),
            tasks=tuple(tasks),
        )


def complement(one: Member, other: Member) -> float:
    """What the better of two gains from the other on the tasks that both ran, summed."""
    shared = [task for task in one.scores if task in other.scores]
    both = sum(max(one.scores[task], other.scores[task]) for task in shared)
    alone = max(sum(member.scores[task] for task in shared) for member in (one, other))
    return both - alone


def _short(reason: str) -> str:
    text = " ".join(reason.split()).rstrip(".")
    return text if len(text) <= 120 else text[:117] + "…"
