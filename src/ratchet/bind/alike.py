"""Groups texts that look as if one template had made them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

_WORD = re.compile(r"\w+")
_SHINGLE = 4
"""Words in a row that are compared."""

_BEGINNING, _END = 3_000, 1_000
"""Words of a text that are looked at."""

ALIKE = 0.5
"""Share of their common and different shingles, by weight, that texts of a group have in common."""

MAX_GROUPS = 64


def groups(texts: Sequence[str], least_share: float) -> list[list[int]]:
    """Group texts.

    Runs of words that many texts have are likely constant text and count more, by the square of how
    many; runs that few have are likely what fills slots.

    Args:
        texts: The texts.
        least_share: Share of the texts that has a run of words which counts at all.

    Returns:
        Places in `texts`, by group; a text that is like no other is in a group of its own.
    """
    shingles = [_shingles(text) for text in texts]
    found = Counter(shingle for each in shingles for shingle in each)
    least = max(2.0, least_share * len(texts))
    weights = {shingle: n * n for shingle, n in found.items() if n >= least}
    leaders: list[tuple[set[int], int]] = []
    members: list[list[int]] = []
    alone: list[list[int]] = []
    for number, every in enumerate(shingles):
        own = {shingle for shingle in every if shingle in weights}
        total = sum(weights[shingle] for shingle in own)
        if not own:
            alone.append([number])
            continue
        best, best_likeness = -1, ALIKE
        for place, (leader, leaders_total) in enumerate(leaders):
            common = sum(weights[shingle] for shingle in own & leader)
            likeness = common / (total + leaders_total - common)
            if likeness >= best_likeness:
                best, best_likeness = place, likeness
        if best >= 0:
            members[best].append(number)
        elif len(leaders) < MAX_GROUPS:
            leaders.append((own, total))
            members.append([number])
        else:
            alone.append([number])
    return members + alone


def _shingles(text: str) -> set[int]:
    words = _WORD.findall(text)
    if len(words) > _BEGINNING + _END:
        words = words[:_BEGINNING] + words[-_END:]
    if len(words) < _SHINGLE:
        return {hash(tuple(words))} if words else set()
    return {hash(run) for run in zip(*(words[n:] for n in range(_SHINGLE)), strict=False)}
