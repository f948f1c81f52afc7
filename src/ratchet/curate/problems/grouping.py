"""Groups occurrences into problems: to known ones first, the rest by resemblance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ratchet.curate.problems.resemblance import Background, Profile, cosine, terms_of
from ratchet.curate.problems.titles import title_of
from ratchet.types import Occurrence, Problem, ProblemKind, content_hash

ALIKE = 0.35
"""Cosine from which an occurrence belongs to a problem. `benchmarks/problems.py` measured it."""

FEWEST = 3
"""Traces that make a problem: fewer may be chance."""

Key = tuple[str, ProblemKind, str]
"""Agent, kind and place: occurrences of different keys are never one problem."""


class Grouped(msgspec.Struct, frozen=True):
    """What grouping found."""

    problem_of: dict[str, str]
    """Problem by occurrence, of those that belong to one."""
    begun: tuple[Problem, ...]
    """New problems."""
    profiles: dict[str, Profile]
    """Changed and new profiles by problem."""


class _Cluster:
    def __init__(self) -> None:
        self.profile = Profile()
        self.members: list[Occurrence] = []


def group(
    occurrences: Sequence[Occurrence],
    problems: Sequence[Problem],
    profiles: Mapping[str, Profile],
    background: Background,
    now: float,
) -> Grouped:
    """Find the problem of each occurrence of an agent.

    Args:
        occurrences: Without a problem so far, oldest first.
        problems: The agent's problems.
        profiles: Their profiles, by id.
        background: The agent's texts.
        now: Unix seconds.
    """
    by_key: dict[Key, list[Occurrence]] = {}
    for occurrence in occurrences:
        key = occurrence.agent, occurrence.kind, occurrence.place
        by_key.setdefault(key, []).append(occurrence)
    problem_of: dict[str, str] = {}
    begun: list[Problem] = []
    changed: dict[str, Profile] = {}
    for key, alike in by_key.items():
        known = {
            problem.id: profiles[problem.id]
            for problem in problems
            if (problem.agent, problem.kind, problem.place) == key and problem.id in profiles
        }
        left: list[Occurrence] = []
        for occurrence in alike:
            terms = terms_of(occurrence.text)
            nearest = _nearest(terms, known, background)
            if nearest is None:
                left.append(occurrence)
                continue
            problem_of[occurrence.id] = nearest
            known[nearest].add(terms)
            changed[nearest] = known[nearest]
        for cluster in _clusters(left, background):
            problem = _problem(key, cluster, background, now)
            begun.append(problem)
            changed[problem.id] = cluster.profile
            problem_of.update((member.id, problem.id) for member in cluster.members)
    return Grouped(problem_of, tuple(begun), {id: p.trimmed() for id, p in changed.items()})


def _nearest(
    terms: frozenset[str], profiles: Mapping[str, Profile], background: Background
) -> str | None:
    """Id of the problem that an occurrence resembles most, if it resembles one."""
    best, most = None, ALIKE
    for id, profile in profiles.items():
        near = cosine(terms, profile, background)
        if near >= most:
            best, most = id, near
    return best


def _clusters(occurrences: Sequence[Occurrence], background: Background) -> list[_Cluster]:
    """Clusters of at least FEWEST traces.

    An occurrence joins the cluster that it resembles most, or begins one. A second round sorts
    anew by what the first has found, so that the order matters little.
    """
    terms = {occurrence.id: terms_of(occurrence.text) for occurrence in occurrences}
    seeds: list[Profile] = []
    clusters: list[_Cluster] = []
    for _ in range(2):
        clusters = [_Cluster() for _ in seeds]
        for occurrence in occurrences:
            nears = [cosine(terms[occurrence.id], seed, background) for seed in seeds]
            nears += [
                cosine(terms[occurrence.id], cluster.profile, background)
                for cluster in clusters[len(seeds) :]
            ]
            at = max(range(len(nears)), key=nears.__getitem__, default=-1)
            if at < 0 or nears[at] < ALIKE:
                clusters.append(_Cluster())
                at = len(clusters) - 1
            clusters[at].members.append(occurrence)
            clusters[at].profile.add(terms[occurrence.id])
        seeds = [cluster.profile for cluster in clusters if cluster.members]
    return [
        cluster
        for cluster in clusters
        if len({member.trace_id for member in cluster.members}) >= FEWEST
    ]


def _problem(key: Key, cluster: _Cluster, background: Background, now: float) -> Problem:
    agent, kind, place = key
    first = min(cluster.members, key=lambda member: (member.at, member.id))
    return Problem(
        id=content_hash(["problem", agent, kind, place, first.id])[:12],
        agent=agent,
        kind=kind,
        place=place,
        title=title_of(kind, place, cluster.members, cluster.profile, background),
        first_seen=first.at,
        last_seen=max(member.at for member in cluster.members),
        changed_at=now,
        evaluator=place if kind == "low_score" else "",
    )
