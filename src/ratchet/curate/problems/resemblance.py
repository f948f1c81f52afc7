"""Resemblance of failures by their words.

Two kinds of text are compared. A *message* (an error, a rationale) is written by a program: what
differs between two templates tells them apart, so rare words count most. A *question* is written by
a user: what matters is what failures have in common and other traffic does not, so the words count
that are more frequent among the failures than in other traces, by the log-likelihood ratio
(Dunning, "Accurate Methods for the Statistics of Surprise and Coincidence", 1993).
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

import msgspec

from ratchet.types.scripts import CHINESE_JAPANESE

MAX_CHARACTERS = 2_000
"""Characters of a text that are compared."""

PROFILE_TERMS = 200
"""Number of most frequent terms kept in a profile."""

BACKGROUND_TERMS = 5_000
"""Number of most frequent terms kept in a background. A missing term counts as very rare."""

PROFILE_MEMORY = 50
"""Weight of a profile's earlier members against a new one, so that it follows drifting words."""

SURPRISING = 10.83
"""Minimum log-likelihood ratio of a word typical of failures: chi-squared, p = 0.001."""

TIMES = 2.0
"""How many times as frequent a word must be among failures as in other traffic. Below it are words
such as "the", of which many texts give a large ratio. `benchmarks/problems.py` measured it."""

Weight: TypeAlias = Callable[[str], float]

_VARYING = re.compile(
    r"""
    '[^'\n]{1,60}'(?!\w) | "[^"\n]{1,60}" | `[^`\n]{1,60}`  # a quoted value
    | \b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{13,}\b            # UUID
    | \b\w{1,20}://\S+ | \S{1,64}@\S{1,200}\.\w+            # URL, mail address
    | (?<!\w)/(?:[\w.-]+/)+[\w.-]*                          # path
    | \b0x[0-9a-f]+\b | \b[0-9a-f]{12,}\b                   # address, hash
    | \w*\d[\w.,:/-]*                                       # number, id, date
    """,
    re.VERBOSE | re.IGNORECASE,
)
_WORD = re.compile(rf"[{CHINESE_JAPANESE}]|[^\W_]+(?:['\u2019][^\W_]+)*")


def masked(text: str) -> str:
    """A text without what differs from one occurrence to the next: numbers, ids, quoted values."""
    plain = unicodedata.normalize("NFKC", text[:MAX_CHARACTERS])
    return " ".join(_VARYING.sub("#", plain).split())


def words_of(text: str) -> list[str]:
    """The words of a masked text, in order."""
    return [word.casefold() for word in _WORD.findall(text)]


ACT = "calls "
"""Prefix of a term that is a tool's name."""


def question_terms(text: str, acts: Iterable[str]) -> frozenset[str]:
    """The terms of a question: its words, and the tools that the agent called for it."""
    return frozenset([*words_of(text), *(f"{ACT}{tool}" for tool in acts)])


BLANK = "_"
"""Stands for the word of a message that differs from one occurrence to the next."""

MIN_BLANK_VALUES = 8
"""Number of different words at one place of otherwise equal messages that make it a blank.
Fewer may be different errors: `benchmarks/problems.py` has messages that differ in one of four
fields, each a problem of its own."""

BLANK_MESSAGE_WORDS = range(3, 13)
"""Lengths in words of messages that may have a blank: in longer ones, a word weighs little."""


def message_terms(words: Sequence[str]) -> frozenset[str]:
    """The terms of a message: its words, and its pairs of neighbouring words.

    A message with a blank is a single term: it equals another message, or it does not.
    """
    if BLANK in words:
        return frozenset([" ".join(words)])
    return frozenset([*words, *(f"{first} {second}" for first, second in pairwise(words))])


def with_blanks(messages: Sequence[Sequence[str]], known: Iterable[str]) -> list[Sequence[str]]:
    """Messages with a blank in place of the only word in which many of them differ.

    Args:
        messages: The words of each.
        known: Terms of known problems: a message that fits one with a blank has that blank.
    """
    values: dict[str, set[str]] = {}
    for words in messages:
        for at, blanked in _blanked(words):
            values.setdefault(blanked, set()).add(words[at])
    blanks = {blanked for blanked, found in values.items() if len(found) >= MIN_BLANK_VALUES}
    blanks.update(term for term in known if BLANK in term.split())
    return [
        next((blanked.split() for _, blanked in _blanked(words) if blanked in blanks), words)
        for words in messages
    ]


def _blanked(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """A message with each word blanked in turn."""
    if len(words) in BLANK_MESSAGE_WORDS:
        for at in range(len(words)):
            yield at, " ".join([*words[:at], BLANK, *words[at + 1 :]])


class Background(msgspec.Struct):
    """Number of an agent's traces with each term of `question_terms`."""

    texts: int = 0
    counts: dict[str, int] = {}

    def add(self, terms: frozenset[str]) -> None:
        """Count a trace."""
        self.texts += 1
        for term in terms:
            self.counts[term] = self.counts.get(term, 0) + 1

    def trimmed(self) -> Background:
        """The background with its most frequent words."""
        if len(self.counts) <= BACKGROUND_TERMS:
            return self
        return Background(self.texts, dict(Counter(self.counts).most_common(BACKGROUND_TERMS)))


class Profile(msgspec.Struct):
    """Share of a problem's occurrences with each term."""

    members: int = 0
    shares: dict[str, float] = {}
    is_message: bool = False
    """Whether its terms are those of messages."""

    def add(self, terms: Iterable[str]) -> None:
        """Count an occurrence."""
        weight = 1.0 / (min(self.members, PROFILE_MEMORY) + 1)
        for term in self.shares:
            self.shares[term] *= 1.0 - weight
        for term in terms:
            self.shares[term] = self.shares.get(term, 0.0) + weight
        self.members += 1

    def trimmed(self) -> Profile:
        """The profile with its most frequent terms."""
        if len(self.shares) <= PROFILE_TERMS:
            return self
        kept = sorted(self.shares, key=lambda term: (-self.shares[term], term))[:PROFILE_TERMS]
        shares = {term: self.shares[term] for term in kept}
        return Profile(self.members, shares, self.is_message)

    def topic(self, weight: Weight, most: int = 3) -> tuple[str, ...]:
        """The profile's most typical words."""

        def worth(word: str) -> tuple[float, str]:
            return -self.shares[word] * weight(word), word

        words = [
            term
            for term in self.shares
            if (len(term) > 3 or not term.isascii()) and weight(term) > 0 and " " not in term
        ]
        return tuple(sorted(words, key=worth)[:most])


def message_weight(terms: Iterable[frozenset[str]], profiles: Iterable[Profile]) -> Weight:
    """Weights of the terms of messages: rare ones count most."""
    counts, total = _counted(terms, profiles)
    return lambda term: math.log((1.0 + total) / (1.0 + counts.get(term, 0.0))) + 1.0


def question_weight(
    terms: Iterable[frozenset[str]], profiles: Iterable[Profile], background: Background
) -> Weight:
    """Weights of the words of questions: words that failures use more than other traffic count."""
    counts, total = _counted(terms, profiles)
    weights: dict[str, float] = {}
    others = max(background.texts - total, 0.0) + 1.0
    for word, count in counts.items():
        expected = total * (max(background.counts.get(word, 0) - count, 0.0) + 0.5) / others
        if count >= TIMES * expected:
            ratio = 2.0 * count * math.log(count / expected)
            if ratio >= SURPRISING:
                weights[word] = math.sqrt(ratio)
    return lambda word: weights.get(word, 0.0)


def _counted(
    terms: Iterable[frozenset[str]], profiles: Iterable[Profile]
) -> tuple[dict[str, float], float]:
    """Number of occurrences with each term, and of all, including profiles'."""
    counts: Counter[str] = Counter()
    total = 0.0
    for own in terms:
        counts.update(own)
        total += 1.0
    by_term: dict[str, float] = dict(counts)
    for profile in profiles:
        members = min(profile.members, PROFILE_MEMORY)
        total += members
        for term, share in profile.shares.items():
            by_term[term] = by_term.get(term, 0.0) + share * members
    return by_term, total


def profile_cosine(first: Profile, second: Profile, weight: Weight) -> float:
    """Cosine between two profiles, from 0 to 1."""
    terms = first.shares.keys() & second.shares.keys()
    shared = sum(first.shares[t] * second.shares[t] * weight(t) ** 2 for t in terms)
    return shared / _length(first, weight) / _length(second, weight) if shared else 0.0


def _length(profile: Profile, weight: Weight) -> float:
    return math.sqrt(sum((share * weight(t)) ** 2 for t, share in profile.shares.items()))


def cosine(terms: frozenset[str], profile: Profile, weight: Weight) -> float:
    """Cosine between an occurrence and a profile, from 0 to 1."""
    own = {term: value for term in terms if (value := weight(term)) > 0.0}
    shared = sum(
        profile.shares[term] * value**2 for term, value in own.items() if term in profile.shares
    )
    if not shared:
        return 0.0
    length = math.sqrt(sum(value**2 for value in own.values()))
    return shared / length / _length(profile, weight)
