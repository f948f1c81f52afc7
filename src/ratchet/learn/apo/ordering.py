"""Decides how the next proposal is made: its parent, its critiques, and the rollouts of each."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence

from ratchet.learn.apo.budget import SearchSizes
from ratchet.learn.apo.coaching import CALLS_AN_EDIT, EditOrder, PromptDraft, low_rollouts
from ratchet.learn.evidence import EvidenceSelector, TriedChange
from ratchet.learn.race import Race, RaceEntry
from ratchet.types import Task

MERGED = 3
"""Maximum number of critiques per edit."""

PLENTY = 600
"""Number of rollouts from which on the first drafts use fewer edits, to be ready sooner."""

LESSONS = 2
"""Number of lessons shown to an edit: critiques that led to an improvement elsewhere."""


def drawn_parent(able: Sequence[RaceEntry], race: Race[RaceEntry], rng: random.Random) -> RaceEntry:
    """One of several entries, drawn by its estimated worth (Thompson sampling)."""
    standings = [race.standing(entry) for entry in able]
    drawn = [rng.gauss(one.mean, one.deviation) for one in standings]
    return able[max(range(len(able)), key=lambda n: (drawn[n], -n))]


def order_of(
    number: int,
    parent: RaceEntry,
    evidence: EvidenceSelector,
    *,
    turn: int,
    batch: int,
    passes: int,
    calls: int,
    draw: float,
    worth: Mapping[str, float],
    lessons: Sequence[str],
    earlier: Sequence[str],
    tried: Sequence[TriedChange],
) -> EditOrder | None:
    """An order with as many critiques and edits as its turn and the remaining calls allow.

    Every other proposal uses all low-scoring rollouts, in several critiques of a few rollouts each,
    since a critique seldom names more than the most obvious faults; the others use a subset.

    Args:
        number: Number of the proposal.
        parent: The entry to edit.
        evidence: Selects the rollouts to show.
        turn: How often the parent was edited before.
        batch: Maximum low rollouts per critique.
        passes: Maximum number of successive edits.
        calls: Number of coach calls left.
        draw: Random number that selects the prompt to edit.
        worth: Success rate of edits, by prompt.
        lessons: Critiques that led to an improvement elsewhere.
        earlier: Why earlier edits of the parent were unusable.
        tried: The edits that made the parent, and those tried on it.

    Returns:
        The order; None if there is nothing new to show of the parent.
    """
    low = len(low_rollouts(parent))
    merged = max(1, min(MERGED, low, calls - CALLS_AN_EDIT)) if turn % 2 == 0 else 1
    size = min(batch, math.ceil(low / merged))
    chosen = [evidence.choose(parent, failures=size, successes=1) for _ in range(merged)]
    groups = tuple(group for group in chosen if group)
    if not groups:
        return None
    most = passes if len(groups) > 1 else passes - 1
    return EditOrder(
        number=number,
        parent=parent,
        groups=groups,
        overview=evidence.overview(parent),
        passes=max(1, min(most, (calls - len(groups)) // CALLS_AN_EDIT)),
        draw=draw,
        worth=dict(worth),
        lessons=tuple(lessons),
        earlier=tuple(earlier),
        tried=tuple(tried),
    )


def first_passes(number: int, sizes: SearchSizes) -> int:
    """Maximum number of successive edits of a proposal; fewer at the start of a large budget.

    No rollout can run before the first draft is done. Where rollouts are plentiful, the first
    drafts finish at different times instead of all at the latest.

    Args:
        number: Number of the proposal, from 1.
        sizes: Sizes of the search.
    """
    if sizes.rollouts < PLENTY or number > sizes.width:
        return sizes.passes
    return min(sizes.passes, 1 + (number - 1) * sizes.passes // sizes.width)


def lessons_for(
    parent: RaceEntry, beam: Sequence[RaceEntry], drafts: Mapping[int, PromptDraft]
) -> tuple[str, ...]:
    """Critiques behind beam members that are not ancestors of the parent."""
    line = set()
    one: RaceEntry | None = parent
    while one is not None:
        line.add(one.number)
        one = one.parent
    others = [c for c in beam if c.number and c.number not in line]
    return tuple(drafts[c.number].critique for c in others if drafts[c.number].critique)[:LESSONS]


def calls_of(order: EditOrder) -> int:
    """Maximum number of coach calls of an order."""
    return len(order.groups) + CALLS_AN_EDIT * order.passes


def ranked(entries: Sequence[RaceEntry], race: Race[RaceEntry]) -> list[RaceEntry]:
    """Entries sorted best first; ties by length of the prompts, then by age."""
    means = {one.number: race.standing(one).mean for one in entries}
    return sorted(entries, key=lambda one: (-round(means[one.number], 6), _length(one), one.number))


def _length(entry: RaceEntry) -> int:
    return sum(len(str(r)) for r in entry.candidate.resources.values())


def telling(entry: RaceEntry, tasks: Sequence[Task], shown: Iterable[str] = ()) -> list[Task]:
    """Tasks in the order that separates a child from its parent soonest.

    Tasks that the parent fails show what an edit gains; those that it solves, what it breaks. The
    child should solve the tasks that the edit was based on (`shown`) and others too: otherwise it
    has only memorised examples. So the order cycles: two shown, one failed and not shown, one
    solved.

    Args:
        entry: The parent; only tasks on which it has a score are included.
        tasks: Tasks to order.
        shown: Ids of the tasks that the edit was based on.
    """
    known, failing = set(shown), set(entry.failing())
    groups: dict[str, list[Task]] = {"shown": [], "failing": [], "solved": []}
    for task in tasks:
        if task.id not in entry.scores:
            continue
        if task.id not in failing:
            groups["solved"].append(task)
        else:
            groups["shown" if task.id in known else "failing"].append(task)
    turn = ("shown", "failing", "shown", "solved")
    ordered: list[Task] = []
    while any(groups.values()):
        for name in turn:
            if groups[name]:
                ordered.append(groups[name].pop(0))
    return ordered
