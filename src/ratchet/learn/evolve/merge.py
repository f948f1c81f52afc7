"""Crossover: one candidate that has what two others each changed for the better.

Resources that only one of them changed since their common ancestor are taken from it. One that both
changed is merged as version control merges files: in lines of code, in sentences of a prompt, with
the ancestor in between. Where both changed the same place in different ways there is no merge, and
a coach may be asked for one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

import msgspec

from ratchet.types import Candidate, Code, InputError, PromptTemplate, Resource, version_of

PIECE = re.compile(r"[^\n.!?]*(?:[.!?]+(?=\s)[ \t]*\n?|\n)|[^\n]+\Z|[^\n.!?]+[.!?]+")
"""A sentence or line, with what ends it."""


class Change(msgspec.Struct, frozen=True):
    """Pieces `start` to `end` of the ancestor become others."""

    start: int
    end: int
    pieces: tuple[str, ...]


def merge_candidates(
    one: Candidate, other: Candidate, ancestor: Candidate
) -> dict[str, Resource] | None:
    """The resources of a merge, or None when they cannot be merged or nothing would be new."""
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
    """Three texts in pieces merged; None where both changed the same place in different ways."""
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
    """A prompt in sentences and lines; joined, they are the text again."""
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
            # A last line without an end would run into what another change puts after it.
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


def _changes(ancestor: Sequence[str], text: Sequence[str]) -> list[Change]:
    matcher = SequenceMatcher(None, ancestor, text, autojunk=False)
    return [
        Change(start, end, tuple(text[begin:stop]))
        for tag, start, end, begin, stop in matcher.get_opcodes()
        if tag != "equal"
    ]


def _place(change: Change) -> tuple[int, int]:
    return change.start, change.end


def _meet(one: Change, other: Change) -> bool:
    if one.start == other.start:
        return True
    first, second = sorted((one, other), key=_place)
    return second.start < first.end


def _reconcile(one: Change, other: Change) -> Change | None:
    """One change in the place of two that meet."""
    if one == other:
        return one
    if (one.start, one.end) == (other.start, other.end):
        if one.start == one.end:
            # Both put something in at the same place: what both say is said once.
            mine = {piece.strip() for piece in one.pieces}
            rest = tuple(piece for piece in other.pieces if piece.strip() not in mine)
            return Change(one.start, one.end, one.pieces + rest)
        return None
    if one.start == one.end or other.start == other.end:
        added, changed = (one, other) if one.start == one.end else (other, one)
        if added.start == changed.start:
            return Change(changed.start, changed.end, added.pieces + changed.pieces)
    return None
