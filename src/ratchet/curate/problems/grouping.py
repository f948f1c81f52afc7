"""Groups occurrences into problems: into known ones first, the rest by resemblance."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from ratchet.curate.problems.resemblance import (
    Background,
    Profile,
    Weight,
    cosine,
    masked,
    message_terms,
    message_weight,
    profile_cosine,
    question_terms,
    question_weight,
    with_blanks,
    words_of,
)
from ratchet.curate.problems.titles import title_of
from ratchet.types import Occurrence, Problem, ProblemKind, content_hash

ALIKE_MESSAGES = 0.6
"""Minimum cosine between messages of the same problem."""

ALIKE_QUESTIONS = 0.35
"""Minimum cosine between questions of the same problem. `benchmarks/problems.py` measured both."""

GENERAL = 0.05
"""Failures of one kind without words in common are a problem of their own if they make up at least
this share of an agent's traces. Noise of 10 % over eight kinds is below it."""

MIN_TRACES = 3
"""Minimum number of traces of a problem: fewer may be chance."""

Key = tuple[str, ProblemKind, str, bool]
"""Agent, kind, place and kind of text: occurrences of different keys are never one problem."""


Id = TypeVar("Id", bound=Hashable)


class Grouped(msgspec.Struct, frozen=True):
    """The result of grouping."""

    problem_of: dict[str, str]
    """Problem by occurrence, of those that belong to one."""
    begun: tuple[Problem, ...]
    """New problems."""
    profiles: dict[str, Profile]
    """Changed and new profiles by problem."""


class _Cluster:
    """Occurrences of one problem; its profile is empty when they have no words in common."""

    def __init__(self, is_message: bool, members: Sequence[Occurrence] = ()) -> None:
        self.profile = Profile(is_message=is_message)
        self.members = list(members)

    @property
    def traces(self) -> int:
        """Number of its traces."""
        return len({member.trace_id for member in self.members})


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
        is_message = occurrence.is_message or bool(occurrence.mistake)
        key = occurrence.agent, occurrence.kind, occurrence.place, is_message
        by_key.setdefault(key, []).append(occurrence)
    problem_of: dict[str, str] = {}
    begun: list[Problem] = []
    changed: dict[str, Profile] = {}
    for key, alike in by_key.items():
        *place, is_message = key
        own = {
            problem.id: profiles[problem.id]
            for problem in problems
            if [problem.agent, problem.kind, problem.place] == place
            and problem.id in profiles
            and profiles[problem.id].is_message == is_message
        }
        known = {id: profile for id, profile in own.items() if profile.shares}
        general = next((id for id in own if id not in known), None)
        terms = _message_terms(alike, known.values()) if is_message else _question_terms(alike)
        weight = (
            message_weight(terms.values(), known.values())
            if is_message
            else question_weight(terms.values(), known.values(), background)
        )
        sorting = _Sorting(weight, is_message, terms)
        left: list[Occurrence] = []
        for occurrence in alike:
            nearest = sorting.nearest(occurrence, known)
            if nearest is None:
                left.append(occurrence)
                continue
            problem_of[occurrence.id] = nearest
            known[nearest].add(terms[occurrence.id])
            changed[nearest] = known[nearest]
        clusters = sorting.clusters(left)
        if not is_message:
            inside = {member.id for cluster in clusters for member in cluster.members}
            rest = _Cluster(
                False, [occurrence for occurrence in left if occurrence.id not in inside]
            )
            if general is not None:
                problem_of.update((member.id, general) for member in rest.members)
            elif rest.traces >= max(MIN_TRACES, GENERAL * background.texts):
                clusters.append(rest)
        for cluster in clusters:
            problem = _problem(key, cluster, terms, weight, now)
            begun.append(problem)
            changed[problem.id] = cluster.profile
            problem_of.update((member.id, problem.id) for member in cluster.members)
    return Grouped(problem_of, tuple(begun), {id: p.trimmed() for id, p in changed.items()})


class _Sorting(NamedTuple):
    """How occurrences of one key are compared."""

    weight: Weight
    is_message: bool
    terms: dict[str, frozenset[str]]
    """By occurrence."""

    @property
    def alike(self) -> float:
        """Minimum cosine of two occurrences of one problem."""
        return ALIKE_MESSAGES if self.is_message else ALIKE_QUESTIONS

    def nearest(self, occurrence: Occurrence, profiles: Mapping[Id, Profile]) -> Id | None:
        """The profile that an occurrence resembles most, if it resembles one."""
        best, most = None, self.alike
        for id, profile in profiles.items():
            near = cosine(self.terms[occurrence.id], profile, self.weight)
            if near >= most:
                best, most = id, near
        return best

    def clusters(self, occurrences: Sequence[Occurrence]) -> list[_Cluster]:
        """Clusters of at least MIN_TRACES traces.

        An occurrence joins the cluster that it resembles most, or begins one. A second round sorts
        anew by what the first has found, so that the order matters little.
        """
        clusters: dict[int, _Cluster] = {}
        for _ in range(2):
            seeds = {at: cluster.profile for at, cluster in clusters.items() if cluster.members}
            clusters = {at: _Cluster(self.is_message) for at in seeds}
            for occurrence in occurrences:
                at = self.nearest(occurrence, seeds)
                if at is None:
                    at = len(clusters)
                    clusters[at] = _Cluster(self.is_message)
                    seeds[at] = clusters[at].profile
                clusters[at].members.append(occurrence)
                clusters[at].profile.add(self.terms[occurrence.id])
        merged = self._merged([cluster for cluster in clusters.values() if cluster.members])
        return [cluster for cluster in merged if cluster.traces >= MIN_TRACES]

    def _merged(self, clusters: list[_Cluster]) -> list[_Cluster]:
        """Merge clusters that resemble one another as occurrences do."""
        merged: list[_Cluster] = []
        for cluster in sorted(clusters, key=lambda cluster: -len(cluster.members)):
            nears = [profile_cosine(cluster.profile, m.profile, self.weight) for m in merged]
            at = max(range(len(nears)), key=nears.__getitem__, default=-1)
            if at < 0 or nears[at] < self.alike:
                merged.append(cluster)
                continue
            for member in cluster.members:
                merged[at].members.append(member)
                merged[at].profile.add(self.terms[member.id])
        return merged


def _message_terms(
    alike: Sequence[Occurrence], known: Iterable[Profile]
) -> dict[str, frozenset[str]]:
    """The messages to compare, by occurrence: a coach's words, or otherwise a program's."""
    said = [words_of(masked(each.mistake) or each.text) for each in alike]
    blanked = with_blanks(said, (term for profile in known for term in profile.shares))
    return {each.id: message_terms(words) for each, words in zip(alike, blanked, strict=True)}


def _question_terms(alike: Sequence[Occurrence]) -> dict[str, frozenset[str]]:
    return {each.id: question_terms(each.text, each.acts) for each in alike}


def _problem(
    key: Key,
    cluster: _Cluster,
    terms: Mapping[str, frozenset[str]],
    weight: Weight,
    now: float,
) -> Problem:
    agent, kind, place, _ = key
    title, is_named = title_of(kind, place, cluster.members, terms, cluster.profile, weight)
    first = min(cluster.members, key=lambda member: (member.at, member.id))
    return Problem(
        # With what a coach named: what it read may have begun another problem before.
        id=content_hash(["problem", agent, kind, place, first.id, first.mistake])[:12],
        agent=agent,
        kind=kind,
        place=place,
        title=title,
        is_named=is_named,
        first_seen=first.at,
        last_seen=max(member.at for member in cluster.members),
        changed_at=now,
        evaluator=place if kind == "low_score" else "",
    )
