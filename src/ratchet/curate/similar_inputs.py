"""Measures how new an input is, and finds its cluster of similar inputs."""

from __future__ import annotations

from collections import Counter, defaultdict

from ratchet.curate.text_features import content_words

CLUSTER = 0.25
"""Minimum share of common words for an input to belong to a cluster."""

_COMMON = 0.2
"""A word in more than this share of the inputs is not used to find similar ones."""


class SimilarInputs:
    """Clusters of inputs, each led by its first. It grows with the number of clusters."""

    def __init__(self) -> None:
        self._leaders: list[frozenset[str]] = []
        self._having: dict[str, list[int]] = defaultdict(list)
        self.sizes: Counter[int] = Counter()
        """Number of inputs by cluster."""

    def nearest(self, text: str) -> tuple[int | None, float]:
        """The cluster with the most words in common, and their share of all words of both.

        None without a cluster that shares a word.
        """
        words = frozenset(content_words(text))
        most = max(50.0, _COMMON * len(self._leaders))
        shared: Counter[int] = Counter()
        for word in words:
            having = self._having.get(word, ())
            if len(having) <= most:
                shared.update(having)
        best: int | None = None
        share = 0.0
        for leader, _ in shared.most_common(8):
            theirs = self._leaders[leader]
            alike = len(words & theirs) / len(words | theirs)
            if alike > share:
                best, share = leader, alike
        return best, share

    def add(self, text: str) -> int:
        """Add an input to its cluster, or to a new one; return the cluster."""
        leader, share = self.nearest(text)
        if leader is None or share < CLUSTER:
            leader = len(self._leaders)
            words = frozenset(content_words(text))
            self._leaders.append(words)
            for word in words:
                self._having[word].append(leader)
        self.sizes[leader] += 1
        return leader
