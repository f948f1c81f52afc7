"""What a coach is told of earlier edits: what each changed, and what it scored."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from textwrap import shorten

import msgspec

from ratchet.learn.race import RaceEntry
from ratchet.observe.step_text import cut
from ratchet.types import Bool, Candidate, Choice, Code, Params, PromptTemplate, Resource

MAX_REASON = 200
MAX_CHANGE = 600
"""Maximum characters of an edit's reason, and of the lines that it changed."""

_ORIGIN = re.compile(r"\AThe coach rewrote \S+ \(asked by [^)]*\):? ?")
"""Where a change comes from, at the start of a reason: the coach knows that it made it."""


class TriedChange(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier change, and its result."""

    reason: str
    gain: float
    """Mean difference of the objective on the tasks that both candidates ran."""
    score: float = 0.0
    """Mean objective on these tasks."""
    tasks: int = 0
    """Number of these tasks; 0 if it did not run."""
    change: str = ""
    """The lines removed and added, marked with - and +."""
    kept: bool = False
    """Whether the current text contains it."""


def tried_change(entry: RaceEntry, *, reason: str = "", kept: bool = False) -> TriedChange:
    """The change that made an entry from its parent.

    Args:
        entry: An entry with a parent.
        reason: Why it was made or refused; the candidate's own by default.
        kept: Whether the text asked about contains it.
    """
    assert entry.parent is not None
    shared = [task for task in entry.scores if task in entry.parent.scores]
    gains = entry.differences()
    return TriedChange(
        reason=reason or entry.candidate.reason,
        gain=sum(gains) / len(gains) if gains else 0.0,
        score=sum(entry.scores[task] for task in shared) / max(1, len(shared)),
        tasks=len(shared),
        change=cut(_changed(entry.parent.candidate, entry.candidate), MAX_CHANGE),
        kept=kept,
    )


def history_text(tried: Sequence[TriedChange]) -> str:
    """Earlier changes as text; empty if there are none."""
    lines: list[str] = []
    for one in tried:
        state = "In the current text: " if one.kept else ""
        reason = shorten(_ORIGIN.sub("", one.reason), MAX_REASON, placeholder=" …")
        lines.append(f"- {state}{reason} {_result(one)}")
        lines += [f"      {line}" for line in one.change.splitlines()]
    return "\n".join(lines)


def changes_text(before: Resource, after: Resource) -> str:
    """The lines that differ between two versions of a text or function, marked with - and +."""
    old, new = (_lines(resource) for resource in (before, after))
    return "\n".join(
        f"{line[0]} {line[1:]}"
        for line in difflib.unified_diff(old, new, n=0, lineterm="")
        if not line.startswith(("---", "+++", "@@")) and line[1:].strip()
    )


def parameters_text(candidate: Candidate) -> str:
    """A candidate's numbers and choices, each with its declared range; empty if it has none."""
    lines = []
    for name, resource in candidate.resources.items():
        if not isinstance(resource, Params):
            continue
        for key, value in resource.values.items():
            knob = resource.space[key]
            if isinstance(knob, Choice):
                bounds = "one of " + ", ".join(map(repr, knob.options))
            elif isinstance(knob, Bool):
                bounds = "True or False"
            else:
                bounds = f"allowed: {knob.low} to {knob.high}"
            lines.append(f"- {name}.{key} = {value!r} ({bounds})")
    return "\n".join(lines)


def _result(tried: TriedChange) -> str:
    if not tried.tasks:
        return "(It was not run.)"
    tasks = f"{tried.tasks} tasks" if tried.tasks > 1 else "1 task"
    gained = "no difference"
    if abs(tried.gain) >= 0.005:
        gained = f"{abs(tried.gain):.2f} {'better' if tried.gain > 0 else 'worse'}"
    return f"(It scored {tried.score:.2f} on {tasks}: {gained} on average than before it.)"


def _changed(before: Candidate, after: Candidate) -> str:
    return "\n".join(
        changes_text(before.resources[name], resource)
        for name, resource in after.resources.items()
        if isinstance(resource, PromptTemplate | Code) and resource != before.resources[name]
    )


def _lines(resource: Resource) -> list[str]:
    text = resource.source if isinstance(resource, Code) else str(resource)
    return text.splitlines()
