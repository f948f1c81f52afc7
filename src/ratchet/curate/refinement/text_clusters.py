"""Clusters of texts: hashed words and pairs of words, weighted by rarity, grouped by k-means."""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from ratchet.types import canonical_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ratchet.curate.refinement.item_response import Floats

    Integers = NDArray[np.intp]

VECTOR_LENGTH = 2048
"""Length of a text's vector; words that share a place are distinguished by neighbouring words."""

MAX_CHARACTERS = 4000
"""Characters of a text that are read."""

MAX_KMEANS_ROUNDS = 25

TEXTS_PER_BATCH = 1000

_WORD = re.compile(r"\w+")


class Clusters(msgspec.Struct, frozen=True, eq=False):
    """Centres of texts that resemble one another."""

    centres: Floats
    """Clusters × VECTOR_LENGTH, of length 1."""
    rarity: Floats
    """Weight of each place of a vector."""
    words: tuple[tuple[str, ...], ...]
    """For each cluster, the words that distinguish it."""

    def places(self) -> list[tuple[float, float]]:
        """Position of each centre on the plane that shows most of their differences."""
        import numpy as np

        around = self.centres - self.centres.mean(0)
        left, sizes, _ = np.linalg.svd(around, full_matrices=False)
        flat = np.zeros((len(around), 2))
        flat[:, : min(2, len(sizes))] = (left * sizes)[:, :2]
        return [(float(x), float(y)) for x, y in flat]

    def nearest(self, texts: Sequence[str]) -> Integers:
        """Index of the cluster of each text."""
        import numpy as np

        parts = [
            (_vectors(texts[at : at + TEXTS_PER_BATCH], self.rarity) @ self.centres.T).argmax(1)
            for at in range(0, len(texts), TEXTS_PER_BATCH)
        ]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.intp)


def text_of(value: Any) -> str:
    """A task's input as text for clustering."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "\n".join(f"{key}: {text_of(item)}" for key, item in value.items())
    if isinstance(value, list):
        return "\n".join(map(text_of, value))
    return canonical_json(value).decode()


def cluster_texts(texts: Sequence[str], count: int, seed: int = 0) -> Clusters:
    """Group texts by spherical k-means, begun with texts far from one another (k-means++).

    Args:
        texts: At least one.
        count: Number of clusters; fewer when there are fewer different texts.
        seed: Seed of the first centres.
    """
    import numpy as np

    counts = _counts(texts)
    rarity = np.log((1.0 + len(texts)) / (1.0 + (counts > 0).sum(0))) + 1.0
    vectors = _unit(np.log1p(counts) * rarity)
    rng = np.random.default_rng(seed)
    centres = vectors[[int(rng.integers(len(texts)))]]
    while len(centres) < count:
        distance = np.clip(1.0 - (vectors @ centres.T).max(1), 0.0, None) ** 2
        distance[distance < 1e-12] = 0.0
        if not distance.sum():
            break
        at = rng.choice(len(texts), p=distance / distance.sum())
        centres = np.vstack([centres, vectors[at]])
    near = (vectors @ centres.T).argmax(1)
    for _ in range(MAX_KMEANS_ROUNDS):
        sums = np.zeros_like(centres)
        np.add.at(sums, near, vectors)
        filled = np.bincount(near, minlength=len(centres)) > 0
        centres = np.where(filled[:, None], _unit(sums), centres)
        after = (vectors @ centres.T).argmax(1)
        if (after == near).all():
            break
        near = after
    return Clusters(centres, rarity, _distinguishing(texts, near, len(centres)))


def _vectors(texts: Sequence[str], rarity: Floats) -> Floats:
    import numpy as np

    return _unit(np.log1p(_counts(texts)) * rarity)


def _counts(texts: Sequence[str]) -> Floats:
    import numpy as np

    counts = np.zeros((len(texts), VECTOR_LENGTH))
    for row, text in enumerate(texts):
        words = _words(text)
        pairs = [f"{first} {second}" for first, second in pairwise(words)]
        for gram in [*words, *pairs]:
            counts[row, zlib.crc32(gram.encode("utf-8", "surrogatepass")) % VECTOR_LENGTH] += 1.0
    return counts


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text[:MAX_CHARACTERS]).casefold())


def _unit(vectors: Floats) -> Floats:
    import numpy as np

    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Floats = vectors / np.maximum(lengths, 1e-12)
    return scaled


def _distinguishing(
    texts: Sequence[str], near: Integers, count: int
) -> tuple[tuple[str, ...], ...]:
    """The words of each cluster that are most frequent in it, relative to all texts."""
    everywhere: Counter[str] = Counter()
    inside: list[Counter[str]] = [Counter() for _ in range(count)]
    for text, cluster in zip(texts, near, strict=True):
        words = set(_words(text))
        everywhere.update(words)
        inside[cluster].update(words)

    def worth(cluster: Counter[str], word: str) -> tuple[float, str]:
        return -(cluster[word] ** 2) / everywhere[word], word

    return tuple(
        tuple(sorted(cluster, key=lambda word, own=cluster: worth(own, word))[:4])  # type: ignore[misc]
        for cluster in inside
    )
