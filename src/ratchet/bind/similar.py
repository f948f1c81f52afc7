"""Groups similar texts by the runs of words that they share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

_WORD = re.compile(r"\w+")
_SHINGLE = 4
"""Number of consecutive words that are compared."""

_BEGINNING, _END = 3_000, 1_000
"""Maximum number of words of a text that are examined."""

MIN_SIMILARITY = 0.5
"""Weighted Jaccard similarity of their shingles that texts of a group must have."""

MAX_GROUPS = 64


def group_similar(texts: Sequence[str], least_share: float) -> list[list[int]]:
    """Group similar texts.

    Runs of words that many texts share are likely constant text and count more, by the square of
    their number; runs that few share are likely slot values.

    Args:
        texts: The texts.
        least_share: Minimum share of the texts in which a run of words must occur to count.

    Returns:
        Indices into `texts`, by group; a text similar to no other is a group of its own.
    """
    shingles = [runs_of_words(text) for text in texts]
    occurrences = Counter(shingle for text_shingles in shingles for shingle in text_shingles)
    threshold = max(2.0, least_share * len(texts))
    weights = {shingle: n * n for shingle, n in occurrences.items() if n >= threshold}
    leaders: list[tuple[set[int], int]] = []
    members: list[list[int]] = []
    alone: list[list[int]] = []
    for number, every in enumerate(shingles):
        own = {shingle for shingle in every if shingle in weights}
        total = sum(weights[shingle] for shingle in own)
        if not own:
            alone.append([number])
            continue
        best, best_likeness = -1, MIN_SIMILARITY
        for index, (leader, leaders_total) in enumerate(leaders):
            common = sum(weights[shingle] for shingle in own & leader)
            likeness = common / (total + leaders_total - common)
            if likeness >= best_likeness:
                best, best_likeness = index, likeness
        if best >= 0:
            members[best].append(number)
        elif len(leaders) < MAX_GROUPS:
            leaders.append((own, total))
            members.append([number])
        else:
            alone.append([number])
    return members + alone


def group_recurring(texts: Sequence[str], counts: Sequence[int], minimum: int) -> list[list[int]]:
    """Group texts that recur, whole or in part.

    Args:
        texts: The texts.
        counts: Number of occurrences of each.
        minimum: Minimum occurrences of a run of words that counts, and of a group.

    Returns:
        Indices into `texts`, by group; texts in no group are left out.
    """
    shingles = [runs_of_words(text) for text in texts]
    occurrences: Counter[int] = Counter()
    for text_shingles, count in zip(shingles, counts, strict=True):
        for shingle in text_shingles:
            occurrences[shingle] += count
    leaders: list[set[int]] = []
    members: list[list[int]] = []
    for number, every in enumerate(shingles):
        own = {shingle for shingle in every if occurrences[shingle] >= minimum}
        if not own:
            continue
        likeness = [len(own & leader) / len(own | leader) for leader in leaders]
        best = max(range(len(leaders)), key=likeness.__getitem__, default=-1)
        if best >= 0 and likeness[best] >= MIN_SIMILARITY:
            members[best].append(number)
        elif len(leaders) < MAX_GROUPS:
            leaders.append(own)
            members.append([number])
    return [group for group in members if sum(counts[number] for number in group) >= minimum]


def runs_of_words(text: str) -> set[int]:
    """Hashes of the runs of words of a text; for a long text, of those at its beginning and end."""
    words = _WORD.findall(text)
    if len(words) > _BEGINNING + _END:
        words = words[:_BEGINNING] + words[-_END:]
    if len(words) < _SHINGLE:
        return {hash(tuple(words))} if words else set()
    return {hash(run) for run in zip(*(words[n:] for n in range(_SHINGLE)), strict=False)}
