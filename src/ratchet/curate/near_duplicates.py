"""Groups nearly identical texts, so that copies of a task are not in two splits.

Candidates are found by MinHash over character 4-grams (Broder 1997) in bands (Indyk and Motwani
1998), by equal words, and by words of which all but one are equal. A candidate pair is confirmed by
the exact Jaccard index of its 4-grams and by the words in which the two differ; groups are the
connected components.

Texts that differ in a number, a negation, an opposite (before and after) or a name are never in one
group, however alike they are. Six or more texts that differ only by exchanged words are a template
with its values, not copies of one text, and stay apart.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ratchet.curate.text_features import OPPOSITES, TextFeatures, read_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Hashes = NDArray[np.uint64]

SAME_WORDS = 0.35
"""Minimum Jaccard index of two texts with the same words, up to fillers, inflection and typos."""

MORE_WORDS = 0.65
"""The same, if one text has additional words."""

OTHER_WORD = 0.6
"""The same, if one word differs."""

OTHER_WORDS = 0.7
"""The same, if several words differ."""

WORDS_TO_ONE = 6
"""Minimum number of words of a text for each differing word."""

TEMPLATE = 6
"""Number of texts differing in exchanged words from which they are a template, not copies."""

MIN_WORDS = 3
"""A text with fewer words, without fillers, is a copy only with the same words in the same
order."""

_BANDS, _ROWS = 32, 3
_NEIGHBOURS = 8
"""How many neighbours in its bucket a text is compared with. The bucket is ordered by its texts'
rarest words, so that copies are neighbours even where one template fills the bucket."""

_LEAST_AGREEMENT = 0.2
"""Minimum agreement of two signatures: three standard errors below `SAME_WORDS`."""

_NEAREST = 12
"""Number of a text's likeliest pairs that are confirmed, besides those found by its words. A few
connect copies."""

_AT_ONCE = 100_000
_MOST_WORDS = 24
_MOST_TYPOS = 100

_Pair = tuple[int, int]


def near_duplicate_groups(texts: Sequence[str]) -> list[int]:
    """Group nearly identical texts.

    Args:
        texts: The texts.

    Returns:
        For each text, the position of the first one of its group.
    """
    read = [read_text(text) for text in texts]
    strong, weak = _Forest(len(read)), []
    _join_equal(read, strong)
    shingles = [_shingles(features.plain) for features in read]
    for first, second in _candidates(read, shingles):
        if strong.root(first) == strong.root(second):
            continue
        how = _likeness(read[first], read[second], shingles[first], shingles[second])
        if how == "same":
            strong.join(first, second)
        elif how == "reworded":
            weak.append((first, second))
    _join_reworded(strong, weak)
    return _parted_by_names(read, strong)


def _shingles(plain: str) -> Hashes:
    """Distinct hashes of a text's character 4-grams, or of a shorter text itself."""
    import numpy as np

    padded = plain if len(plain) >= 4 else plain.ljust(4)
    points = np.frombuffer(padded.encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(
        np.uint64
    )
    grams = points[:-3]
    for step in range(1, 4):
        grams = grams * np.uint64(0x100000001B3) + points[step : len(points) - 3 + step]
    grams = (grams ^ (grams >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return _distinct([grams ^ (grams >> np.uint64(32))])


def _distinct(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """The distinct numbers, sorted; `numpy.unique` takes several times as long."""
    import numpy as np

    numbers = np.sort(np.concatenate(arrays))
    return numbers[np.r_[True, numbers[1:] != numbers[:-1]]] if len(numbers) else numbers


def _join_equal(read: Sequence[TextFeatures], forest: _Forest) -> None:
    first: dict[Any, int] = {}
    for number, features in enumerate(read):
        forest.join(
            first.setdefault((features.facts, features.words or features.plain), number), number
        )


def _candidates(read: Sequence[TextFeatures], shingles: Sequence[Hashes]) -> list[_Pair]:
    """Pairs that may be alike, likeliest first. Every pair has equal facts."""
    import numpy as np

    usual = [number for number, features in enumerate(read) if len(features.words) >= MIN_WORDS]
    if len(usual) < 2:
        return []
    often = Counter(word for number in usual for word in set(read[number].words))
    ordered = sorted(
        usual,
        key=lambda n: sorted(read[n].words, key=lambda word: (often[word], word)),
    )
    ranks = {number: rank for rank, number in enumerate(ordered)}
    signatures = _signatures([shingles[number] for number in ordered])
    facts: dict[str, int] = {}
    of = np.array([facts.setdefault(read[n].facts, len(facts)) for n in ordered], dtype=np.uint64)
    neighbours = [_pairs(bucket, ranks) for bucket in _word_buckets(read, usual)]
    by_words = _distinct([np.empty(0, np.int64), *neighbours])
    pairs = by_words
    for bucket in _band_buckets(signatures, of):
        pairs = _distinct([pairs, bucket])
    left, right = np.divmod(pairs, len(ordered))
    agreement = np.concatenate(
        [
            (signatures[left[at : at + _AT_ONCE]] == signatures[right[at : at + _AT_ONCE]]).mean(1)
            for at in range(0, len(pairs), _AT_ONCE)
        ]
        or [np.empty(0)]
    )
    likely = np.flatnonzero(agreement >= _LEAST_AGREEMENT)
    nearest = _is_nearest(left[likely], agreement[likely])
    nearest |= _is_nearest(right[likely], agreement[likely])
    nearest |= np.isin(pairs[likely], by_words, assume_unique=True)
    likely = likely[nearest]
    likely = likely[np.argsort(-agreement[likely], kind="stable")]
    return [(ordered[a], ordered[b]) for a, b in zip(left[likely], right[likely], strict=True)]


def _is_nearest(text: NDArray[np.int64], agreement: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether a pair is among a text's best-agreeing pairs."""
    import numpy as np

    order = np.lexsort((-agreement, text))
    ordered = text[order]
    first = np.searchsorted(ordered, ordered)
    nearest = np.empty(len(text), dtype=bool)
    nearest[order] = np.arange(len(text)) - first < _NEAREST
    return nearest


def _word_buckets(read: Sequence[TextFeatures], usual: Sequence[int]) -> Iterator[Sequence[int]]:
    """Texts with the same words in another order, and texts that differ in one word."""
    buckets: dict[int, list[int]] = defaultdict(list)
    for number in usual:
        features = read[number]
        words = sorted(features.words)
        buckets[hash((features.facts, *words))].append(number)
        if MIN_WORDS < len(words) <= _MOST_WORDS:
            for left_out in range(len(words)):
                remaining = (*words[:left_out], *words[left_out + 1 :])
                buckets[hash((features.facts, *remaining))].append(number)
    return (bucket for bucket in buckets.values() if len(bucket) > 1)


def _signatures(shingles: Sequence[Hashes]) -> NDArray[np.uint32]:
    """MinHash signatures, one row per text."""
    import numpy as np

    rng = np.random.default_rng(0)
    factors = rng.integers(1, 2**63, _BANDS * _ROWS, dtype=np.uint64) | np.uint64(1)
    offsets = rng.integers(0, 2**63, _BANDS * _ROWS, dtype=np.uint64)
    signatures = np.empty((len(shingles), _BANDS * _ROWS), dtype=np.uint32)
    for row, own in enumerate(shingles):
        signatures[row] = ((own[:, None] * factors + offsets) >> np.uint64(32)).min(axis=0)
    return signatures


def _band_buckets(signatures: NDArray[np.uint32], facts: Hashes) -> Iterator[NDArray[np.int64]]:
    """Pairs of ranks whose signatures agree in a band, and whose facts are equal."""
    import numpy as np

    mixers = np.random.default_rng(1).integers(1, 2**63, _ROWS + 1, dtype=np.uint64) | np.uint64(1)
    for band in range(0, _BANDS * _ROWS, _ROWS):
        keys = facts * mixers[-1]
        for row in range(_ROWS):
            keys = (keys ^ (keys >> np.uint64(31))) * mixers[row] + signatures[:, band + row]
        order = np.argsort(keys, kind="stable")  # ranks within a bucket stay in their order
        pairs = []
        for step in range(1, _NEIGHBOURS + 1):
            same = keys[order[step:]] == keys[order[:-step]]
            pairs.append(order[:-step][same] * len(order) + order[step:][same])
        yield np.concatenate(pairs)


def _pairs(bucket: Sequence[int], ranks: Mapping[int, int]) -> NDArray[np.int64]:
    """Pairs of neighbours: texts whose rarest words are alike."""
    import numpy as np

    own = _distinct([np.array([ranks[number] for number in bucket], dtype=np.int64)])
    steps = range(1, min(_NEIGHBOURS, len(own) - 1) + 1)
    pairs = [own[:-step] * len(ranks) + own[step:] for step in steps]
    return np.concatenate([np.empty(0, np.int64), *pairs])


def _likeness(first: TextFeatures, second: TextFeatures, mine: Hashes, theirs: Hashes) -> str:
    """`same`, `reworded` or nothing, for texts of equal facts."""
    fewer, most = sorted((len(mine), len(theirs)))
    if fewer < SAME_WORDS * most:
        return ""
    alike = _jaccard(mine, theirs)
    if alike < SAME_WORDS:
        return ""
    left, right = _unmatched(first.words, second.words)
    names = first.names | second.names
    if _held(first, names) != _held(second, names):
        return ""
    openings = first.openings | second.openings
    if left and right and not openings.isdisjoint((*left, *right)):
        return ""
    if not OPPOSITES.isdisjoint(left) and not OPPOSITES.isdisjoint(right):
        return ""
    left, right = ([w for w in side if w not in OPPOSITES] for side in (left, right))
    if left and right:
        fewest = min(sum(w not in OPPOSITES for w in text.words) for text in (first, second))
        if max(len(left), len(right)) * WORDS_TO_ONE > fewest:
            return ""
        needed = OTHER_WORD if len(left) == len(right) == 1 else OTHER_WORDS
    else:
        needed = MORE_WORDS if left or right else SAME_WORDS
    if alike < needed:
        return ""
    return "reworded" if left and right else "same"


def _jaccard(first: Hashes, second: Hashes) -> float:
    import numpy as np

    # Both are sorted, without repetitions.
    at = np.searchsorted(first, second)
    at[at == len(first)] = 0
    both = int(np.count_nonzero(first[at] == second))
    return both / (len(first) + len(second) - both)


def _unmatched(first: Sequence[str], second: Sequence[str]) -> tuple[list[str], list[str]]:
    """Words of either text without an equal or nearly equal word in the other."""
    counts, theirs = Counter(first), Counter(second)
    left, right = list((counts - theirs).elements()), list((theirs - counts).elements())
    # Where so many words differ, typos do not matter.
    for word in list(left) if len(left) + len(right) <= _MOST_TYPOS else ():
        # Typos spare the first letter; other words that look alike often do not.
        near = (
            candidate
            for candidate in right
            if candidate[0] == word[0] and _is_variant(word, candidate)
        )
        partner = next(near, None)
        if partner is not None:
            left.remove(word)
            right.remove(partner)
    # A word that occurs twice is not another word.
    return [w for w in left if w not in theirs], [w for w in right if w not in counts]


def _is_variant(first: str, second: str) -> bool:
    """Whether two words differ by one typo, or by their suffix."""
    short, long = sorted((first, second), key=len)
    if len(short) < 4 or len(long) - len(short) > 3:
        return False
    if long.startswith(short):
        return long[len(short) :] in _ENDINGS
    if len(long) - len(short) > 1:
        return False
    begin = next(n for n, sign in enumerate(short) if sign != long[n])
    if len(short) < len(long):
        return short[begin:] == long[begin + 1 :]
    if short[begin + 1 :] == long[begin + 1 :]:
        return len(short) > 4
    swapped = short[begin + 1 : begin + 2] + short[begin]
    return swapped == long[begin : begin + 2] and short[begin + 2 :] == long[begin + 2 :]


_ENDINGS = frozenset(("s", "es", "d", "ed", "ing", "ly", "er", "n", "en", "e"))


def _join_reworded(strong: _Forest, weak: Iterable[_Pair]) -> None:
    """Join groups whose texts differ in exchanged words, unless there are enough for a template."""
    pairs = {
        (first, second)
        for first, second in ((strong.root(a), strong.root(b)) for a, b in weak)
        if first != second
    }
    wide = _Forest(len(strong))
    for first, second in pairs:
        wide.join(first, second)
    groups = Counter(wide.root(number) for number in {member for pair in pairs for member in pair})
    for first, second in pairs:
        if groups[wide.root(first)] < TEMPLATE:
            strong.join(first, second)


def _parted_by_names(read: Sequence[TextFeatures], forest: _Forest) -> list[int]:
    """The groups, each divided if one of its texts has a name that another lacks.

    Pairs were compared, and a text between two may hold neither name or hold it uncapitalised.
    """
    members: dict[int, list[int]] = defaultdict(list)
    for number in range(len(read)):
        members[forest.root(number)].append(number)
    groups = list(range(len(read)))
    for own in members.values():
        if len(own) == 1:
            continue
        names = frozenset().union(*(read[number].names for number in own))
        first: dict[tuple[str, ...], int] = {}
        for number in own:
            groups[number] = first.setdefault(_held(read[number], names), number)
    return groups


def _held(text: TextFeatures, names: frozenset[str]) -> tuple[str, ...]:
    """The names that a text contains, in order."""
    quoted = sorted(name for name in names if name in text.plain and name not in text.words)
    return (*(word for word in text.words if word in names), *quoted) if names else ()


class _Forest:
    """Disjoint sets of numbers, each identified by its smallest."""

    def __init__(self, size: int) -> None:
        self._parent = list(range(size))

    def __len__(self) -> int:
        return len(self._parent)

    def root(self, number: int) -> int:
        """The smallest number of the set."""
        parent = self._parent
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    def join(self, first: int, second: int) -> None:
        """Unite two sets."""
        first, second = sorted((self.root(first), self.root(second)))
        self._parent[second] = first
