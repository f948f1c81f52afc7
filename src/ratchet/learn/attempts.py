"""What was tried in a run: every change with its result, across all algorithms."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from ratchet.types import Candidate, Code, Params, PromptTemplate, Resource

Outcome: TypeAlias = Literal["ran", "refused", "declined"]


class TriedChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change and its result."""

    outcome: Outcome = "ran"
    candidate_id: str = ""
    """The candidate that resulted; empty if there is none."""
    algorithm: str
    reason: str
    """What was changed and why, or why there is no candidate."""
    change: str = ""
    """The lines removed and added, marked with - and +."""
    score: float = 0.0
    before: float = 0.0
    """Mean objective of the candidate and of its parent, on the tasks that both ran."""
    tasks: int = 0
    """Number of these tasks."""
    worst: str = ""
    """The answer that scored the most below the parent's; empty if none scored below."""


def attempt_of(
    candidate: Candidate,
    values: Mapping[str, float],
    parent: Candidate | None,
    parents_values: Mapping[str, float],
) -> TriedChange:
    """The change that made a candidate from its parent.

    Args:
        candidate: The candidate.
        values: Its scores by task.
        parent: What it was made from.
        parents_values: The scores of that.
    """
    shared = [task for task in values if task in parents_values]
    count = max(1, len(shared))
    return TriedChange(
        candidate_id=candidate.id,
        algorithm=candidate.algorithm,
        reason=candidate.reason,
        change=_changed(parent, candidate) if parent else "",
        score=sum(values[task] for task in shared) / count,
        before=sum(parents_values[task] for task in shared) / count,
        tasks=len(shared),
    )


def changes_text(before: Resource, after: Resource) -> str:
    """The lines that differ between two versions of a resource, marked with - and +."""
    old, new = (_lines(resource) for resource in (before, after))
    return "\n".join(
        f"{line[0]} {line[1:]}"
        for line in difflib.unified_diff(old, new, n=0, lineterm="")
        if not line.startswith(("---", "+++", "@@")) and line[1:].strip()
    )


def _changed(before: Candidate, after: Candidate) -> str:
    return "\n".join(
        changes_text(before.resources[name], resource)
        for name, resource in after.resources.items()
        if name in before.resources and resource != before.resources[name]
    )


def _lines(resource: Resource) -> list[str]:
    if isinstance(resource, Params):
        return [f"{name} = {value!r}" for name, value in resource.values.items()]
    if isinstance(resource, Code):
        return resource.source.splitlines()
    return resource.text.splitlines() if isinstance(resource, PromptTemplate) else [str(resource)]
