"""Resemblance of two failures by their words: rare words count more than those of every trace."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise

import msgspec

MAX_CHARACTERS = 2_000
"""Characters of a text that are compared."""

PROFILE_TERMS = 200
"""Terms that a profile keeps, the most frequent ones."""

BACKGROUND_TERMS = 5_000
"""Terms that a background keeps, the most frequent ones. A term that it lacks counts as rare."""

MEMORY = 50
"""Members that a profile weighs as before a new one: it follows a failure whose words drift."""

_VARYING = re.compile(
    r"""
    \b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{13,}\b   # UUID
    | \b\w{1,20}://\S+ | \S{1,64}@\S{1,200}\.\w+  # URL, mail address
    | (?<!\w)/(?:[\w.-]+/)+[\w.-]*                # path
    | \b0x[0-9a-f]+\b | \b[0-9a-f]{12,}\b         # address, hash
    | \w*\d[\w.,:/-]*                             # number, id, date
    """,
    re.VERBOSE | re.IGNORECASE,
)
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_]+(?:['\u2019][^\W_]+)*")


def masked(text: str) -> str:
    """A text without what differs from one occurrence to the next: numbers, ids, paths, URLs."""
    plain = unicodedata.normalize("NFKC", text[:MAX_CHARACTERS])
    return " ".join(_VARYING.sub("#", plain).split())


def terms_of(text: str) -> frozenset[str]:
    """The words of a masked text, and its pairs of neighbouring words."""
    words = [word.casefold() for word in _WORD.findall(text)]
    return frozenset([*words, *(f"{first} {second}" for first, second in pairwise(words))])


class Background(msgspec.Struct):
    """In how many of an agent's texts each term stands."""

    texts: int = 0
    counts: dict[str, int] = {}

    def add(self, text: str) -> None:
        """Count a text."""
        self.texts += 1
        for term in terms_of(text):
            self.counts[term] = self.counts.get(term, 0) + 1

    def trimmed(self) -> Background:
        """The background with its most frequent terms."""
        if len(self.counts) <= BACKGROUND_TERMS:
            return self
        return Background(self.texts, dict(Counter(self.counts).most_common(BACKGROUND_TERMS)))

    def rarity(self, term: str) -> float:
        """Weight of a term: about 1 when every text has it."""
        return math.log((1.0 + self.texts) / (1.0 + self.counts.get(term, 0))) + 1.0


class Profile(msgspec.Struct):
    """In what share of a problem's occurrences each term stands."""

    members: int = 0
    shares: dict[str, float] = {}

    def add(self, terms: Iterable[str]) -> None:
        """Count an occurrence."""
        weight = 1.0 / (min(self.members, MEMORY) + 1)
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
        return Profile(self.members, {term: self.shares[term] for term in kept})

    def topic(self, background: Background, most: int = 3) -> tuple[str, ...]:
        """The words that distinguish it."""

        def worth(term: str) -> tuple[float, str]:
            return -self.shares[term] * (background.rarity(term) - 1.0), term

        words = [term for term in self.shares if " " not in term and len(term) > 2]
        return tuple(sorted(words, key=worth)[:most])


def cosine(terms: frozenset[str], profile: Profile, background: Background) -> float:
    """Cosine between an occurrence and a profile, from 0 to 1."""
    if not terms or not profile.shares:
        return 0.0
    shared = sum(
        profile.shares[term] * background.rarity(term) ** 2
        for term in terms
        if term in profile.shares
    )
    if not shared:
        return 0.0
    return (
        shared
        / math.sqrt(_squares(dict.fromkeys(terms, 1.0), background))
        / math.sqrt(_squares(profile.shares, background))
    )


def _squares(weights: Mapping[str, float], background: Background) -> float:
    return sum((weight * background.rarity(term)) ** 2 for term, weight in weights.items())
