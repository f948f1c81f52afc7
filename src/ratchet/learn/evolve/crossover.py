"""Crossover: merges pairs of accepted candidates that are each better on some tasks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

import msgspec

from ratchet.learn.evolve.judging import Judging
from ratchet.learn.evolve.population import Member
from ratchet.learn.lab import Lab
from ratchet.learn.proposers import Draft
from ratchet.learn.race import EVEN
from ratchet.types import Candidate, Code, InputError, PromptTemplate, Resource, version_of

PARTNERS = 8
"""Number of the best members that a newly accepted one is paired with."""

LEAST_SHARE = 0.12
"""Survival rate of merges below which most pairs are skipped."""


class MergedPair(msgspec.Struct, frozen=True, kw_only=True):
    """The merge of two candidates."""

    draft: Draft
    parents: tuple[Member, ...]
    island: int
    tasks: tuple[str, ...]
    """Tasks to run first: those where the second parent is better, then those where the first
    is."""


class Crossover:
    """Pairs queued for merging.

    Args:
        lab: The lab to search in.
        judging: State of the candidates.
    """

    def __init__(self, lab: Lab, judging: Judging) -> None:
        self._lab = lab
        self._judging = judging
        self._pairs: list[tuple[Member, Member]] = []

    def kept(self, member: Member) -> None:
        """Pair a newly accepted member with the members that complement it."""
        race = self._judging.race
        others = [m for m in self._judging.population.members if m is not member and m.parents]
        others.sort(key=lambda m: (-race.standing(m).mean, m.number))
        line = {one.number for one in member.ancestors()}
        for other in others[:PARTNERS]:
            if other.number in line or member.number in {m.number for m in other.ancestors()}:
                continue
            if complement(member, other) > EVEN:
                self._pairs.append((member, other))

    def merges(self) -> Iterator[MergedPair]:
        """Merges of the queued pairs, most promising first; conflicting pairs are skipped."""
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
        """Estimated worth of a merge with the strengths of both."""
        race = self._judging.race
        worth = max(race.standing(member).mean for member in (one, other))
        shared = sum(task in other.scores for task in one.scores)
        return worth + complement(one, other) / max(1, shared)

    def _merge(self, one: Member, other: Member) -> MergedPair | None:
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
            f"It merges the changes of two candidates: {_short(one.candidate.reason)}; and"
            f" {_short(other.candidate.reason)}."
        )
        return MergedPair(
            draft=Draft(resources=changed, operator="merge", reason=reason),
            parents=(one, other),
            island=min(one.islands),
            tasks=tuple(tasks),
        )


def complement(one: Member, other: Member) -> float:
    """Sum over shared tasks of the best score of either, minus the higher of their two sums."""
    shared = [task for task in one.scores if task in other.scores]
    both = sum(max(one.scores[task], other.scores[task]) for task in shared)
    alone = max(sum(member.scores[task] for task in shared) for member in (one, other))
    return both - alone


def _short(reason: str) -> str:
    text = " ".join(reason.split()).rstrip(".")
    return text if len(text) <= 120 else text[:117] + "…"


PIECE = re.compile(r"[^\n.!?]*(?:[.!?]+(?=\s)[ \t]*\n?|\n)|[^\n]+\Z|[^\n.!?]+[.!?]+")
"""A sentence or line, including its terminator."""


class MergeChange(msgspec.Struct, frozen=True):
    """A replacement of the ancestor's pieces `start` to `end`."""

    start: int
    end: int
    pieces: tuple[str, ...]


def merge_candidates(
    one: Candidate, other: Candidate, ancestor: Candidate
) -> dict[str, Resource] | None:
    """The merged resources; None if the two conflict or the result is not new."""
    merged: dict[str, Resource] = {}
    for name, base in ancestor.resources.items():
        mine, theirs = one.resources[name], other.resources[name]
        if version_of(mine) == version_of(theirs) or version_of(theirs) == version_of(base):
            merged[name] = mine
        elif version_of(mine) == version_of(base):
            merged[name] = theirs
        else:
            both = _merge(mine, theirs, base)
            if both is None:
                return None
            merged[name] = both
    versions = {name: version_of(resource) for name, resource in merged.items()}
    if versions in (one.versions(), other.versions()):
        return None
    return merged


def merge_texts(one: Sequence[str], other: Sequence[str], ancestor: Sequence[str]) -> str | None:
    """Three-way merge of texts split into pieces; None on a conflict."""
    mine, theirs = _changes(ancestor, one), _changes(ancestor, other)
    made: list[str] = []
    at = 0
    while mine or theirs:
        first = min((changes[0] for changes in (mine, theirs) if changes), key=_place)
        change = first
        if mine and theirs and _meet(mine[0], theirs[0]):
            both = _reconcile(mine.pop(0), theirs.pop(0))
            if both is None:
                return None
            change = both
        else:
            (mine if mine and mine[0] is first else theirs).pop(0)
        if change.start < at:
            return None
        made.extend(ancestor[at : change.start])
        made.extend(change.pieces)
        at = change.end
    made.extend(ancestor[at:])
    return "".join(made)


def pieces_of(text: str) -> list[str]:
    """A prompt split into sentences and lines; joining the pieces restores the text."""
    found: list[str] = []
    at = 0
    for match in PIECE.finditer(text):
        if match.start() > at:
            found.append(text[at : match.start()])
        found.append(match.group())
        at = match.end()
    if at < len(text):
        found.append(text[at:])
    return [piece for piece in found if piece]


def _merge(one: Resource, other: Resource, base: Resource) -> Resource | None:
    try:
        if isinstance(one, PromptTemplate) and isinstance(other, PromptTemplate):
            assert isinstance(base, PromptTemplate)
            if not one.engine == other.engine == base.engine:
                return None
            # Terminate the last line, lest it run into a piece inserted after it.
            texts = [_ended(part.text) for part in (one, other, base)]
            text = merge_texts(*(pieces_of(text) for text in texts))
            if text is None:
                return None
            ends = [part.text.endswith("\n") for part in (one, other, base)]
            return PromptTemplate(text if any(ends) else text.removesuffix("\n"), base.engine)
        if isinstance(one, Code) and isinstance(other, Code) and isinstance(base, Code):
            lines = [_ended(part.source).splitlines(keepends=True) for part in (one, other, base)]
            text = merge_texts(*lines)
            return None if text is None else Code(text, base.function)
    except InputError:
        return None
    return None


def _ended(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


def _changes(ancestor: Sequence[str], text: Sequence[str]) -> list[MergeChange]:
    matcher = SequenceMatcher(None, ancestor, text, autojunk=False)
    return [
        MergeChange(start, end, tuple(text[begin:stop]))
        for tag, start, end, begin, stop in matcher.get_opcodes()
        if tag != "equal"
    ]


def _place(change: MergeChange) -> tuple[int, int]:
    return change.start, change.end


def _meet(one: MergeChange, other: MergeChange) -> bool:
    if one.start == other.start:
        return True
    first, second = sorted((one, other), key=_place)
    return second.start < first.end


def _reconcile(one: MergeChange, other: MergeChange) -> MergeChange | None:
    """Combine two overlapping changes into one; None on a conflict."""
    if one == other:
        return one
    if (one.start, one.end) == (other.start, other.end):
        if one.start == one.end:
            # Both insert at the same position: common pieces are inserted once.
            mine = {piece.strip() for piece in one.pieces}
            rest = tuple(piece for piece in other.pieces if piece.strip() not in mine)
            return MergeChange(one.start, one.end, one.pieces + rest)
        return None
    if one.start == one.end or other.start == other.end:
        added, changed = (one, other) if one.start == one.end else (other, one)
        if added.start == changed.start:
            return MergeChange(changed.start, changed.end, added.pieces + changed.pieces)
    return None
