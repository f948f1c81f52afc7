"""Coverage and drift: what live traffic asks for that a dataset lacks, and how traffic changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ratchet.curate.refinement.text_clusters import cluster_texts, text_of

if TYPE_CHECKING:
    from ratchet.curate.refinement.text_clusters import Integers

MIN_LIVE_INPUTS = 50

MAX_CLUSTERS = 24
TEXTS_PER_CLUSTER = 25

GAP_SHARE, GAP_RATIO = 0.03, 1 / 3
"""A gap is a cluster with at least this share of the traffic, and less than this ratio of that
share among the tasks."""

PERMUTATIONS = 999


class CoveredCluster(msgspec.Struct, frozen=True):
    """A kind of live inputs, and the number of tasks of it."""

    words: tuple[str, ...]
    """Words that distinguish it."""
    live: float
    """Share of the live inputs."""
    earlier: float
    """Share of the older half of the live inputs."""
    recent: float
    """Share of the newer half."""
    tasks: int
    """Number of the dataset's tasks."""
    examples: tuple[Any, ...]
    """A few live inputs."""
    gap: bool
    """Whether the dataset has too few tasks of this kind."""
    place: tuple[float, float]
    """Position on a map; nearby clusters have words in common."""
    of_tasks: tuple[int, ...] = ()
    """Indexes of the dataset's tasks of this kind."""
    of_live: tuple[int, ...] = ()
    """Indexes of the live inputs of this kind."""


class Coverage(msgspec.Struct, frozen=True):
    """A dataset compared with live traffic."""

    clusters: tuple[CoveredCluster, ...]
    """Most frequent first."""
    inputs: int
    """Number of live inputs."""
    distance: float
    """Difference between the shares of traffic and dataset: 0 identical, 1 disjoint (total
    variation)."""
    drift: float
    """Difference between the older and the newer half of the traffic (total variation)."""
    drift_p: float
    """Probability of this much drift if the inputs' order were random (permutation test)."""

    @property
    def gaps(self) -> tuple[CoveredCluster, ...]:
        """The clusters of which the dataset has too few tasks."""
        return tuple(cluster for cluster in self.clusters if cluster.gap)


def measure_coverage(
    live: Sequence[Any], inputs: Sequence[Any], *, seed: int = 0
) -> Coverage | None:
    """Compare the inputs of live traffic with those of a dataset.

    Args:
        live: Inputs of live traffic, oldest first.
        inputs: Inputs of the dataset's tasks.
        seed: Seed of the clusters and of the permutations.

    Returns:
        None when there are fewer than `MIN_LIVE_INPUTS` live inputs.
    """
    import numpy as np

    if len(live) < MIN_LIVE_INPUTS:
        return None
    texts = [text_of(value) for value in live]
    count = min(MAX_CLUSTERS, max(2, len(texts) // TEXTS_PER_CLUSTER))
    clusters = cluster_texts(texts, count, seed)
    near, size = clusters.nearest(texts), len(clusters.centres)
    of_task = np.zeros(0, dtype=int)
    if inputs:
        of_task = clusters.nearest([text_of(v) for v in inputs])
    of_tasks = np.bincount(of_task, minlength=size)
    half = len(near) // 2
    earlier, recent, overall = (_shares(part, size) for part in (near[:half], near[half:], near))
    mine = of_tasks / max(1, of_tasks.sum())
    drift = 0.5 * float(abs(earlier - recent).sum())
    rng, extreme = np.random.default_rng(seed), 1
    for _ in range(PERMUTATIONS):
        mixed = rng.permutation(near)
        chance = abs(_shares(mixed[:half], size) - _shares(mixed[half:], size)).sum()
        extreme += 0.5 * float(chance) >= drift - 1e-12
    places = clusters.places()
    covered = [
        CoveredCluster(
            words=clusters.words[at],
            live=float(overall[at]),
            earlier=float(earlier[at]),
            recent=float(recent[at]),
            tasks=int(of_tasks[at]),
            examples=tuple(live[row] for row in np.flatnonzero(near == at)[:3]),
            gap=bool(overall[at] >= GAP_SHARE and mine[at] < GAP_RATIO * overall[at]),
            place=places[at],
            of_tasks=tuple(np.flatnonzero(of_task == at).tolist()),
            of_live=tuple(np.flatnonzero(near == at).tolist()),
        )
        for at in np.argsort(-overall, kind="stable")
        if overall[at] > 0
    ]
    return Coverage(
        clusters=tuple(covered),
        inputs=len(live),
        distance=0.5 * float(abs(overall - mine).sum()),
        drift=drift,
        drift_p=extreme / (PERMUTATIONS + 1),
    )


def _shares(near: Integers, size: int) -> Any:
    import numpy as np

    return np.bincount(near, minlength=size) / max(1, len(near))
