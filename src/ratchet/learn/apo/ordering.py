"""What the next proposal is made from: which parent, how many critiques, of how many rollouts."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence

from ratchet.learn.apo.budget import SearchSizes
from ratchet.learn.apo.coaching import CALLS_AN_EDIT, EditOrder, PromptDraft, low_rollouts
from ratchet.learn.race import Race, RaceEntry
from ratchet.types import Task

MERGED = 3
"""Critiques that one edit is made from, at most."""

PLENTY = 600
"""Rollouts from which on the first drafts are made in less time."""

LESSONS = 2
"""Critiques that led to something better elsewhere, shown to an edit."""


def drawn_parent(beam: Sequence[RaceEntry], race: Race[RaceEntry], rng: random.Random) -> RaceEntry:
    """A member of the beam: one drawn by how good it may be (Thompson sampling)."""
    able = [entry for entry in beam if low_rollouts(entry)]
    standings = [race.standing(entry) for entry in able]
    drawn = [rng.gauss(one.mean, one.deviation) for one in standings]
    return able[max(range(len(able)), key=lambda n: (drawn[n], -n))]


def order_of(
    number: int,
    parent: RaceEntry,
    *,
    turn: int,
    batch: int,
    passes: int,
    calls: int,
    draw: float,
    worth: Mapping[str, float],
    lessons: Sequence[str],
    earlier: Sequence[str],
) -> EditOrder:
    """An order, with as many critiques and edits as suit its turn and the calls that are left.

    Every other proposal is made from all that is known, in several critiques of a few rollouts
    each, since a critique seldom names more than the clearest points; those between are made from a
    part of it.

    Args:
        number: Of the proposal.
        parent: What is edited.
        turn: How often it was edited before.
        batch: Rollouts of a critique, at most.
        passes: Edits one after another, at most.
        calls: Coach calls that are left.
        draw: Which prompt is edited.
        worth: How often edits of each prompt were kept.
        lessons: Critiques that led to something better elsewhere.
        earlier: Why earlier edits of the parent could not be tried.
    """
    low = len(low_rollouts(parent))
    merged = max(1, min(MERGED, low, calls - CALLS_AN_EDIT)) if turn % 2 == 0 else 1
    most = passes if merged > 1 else passes - 1
    return EditOrder(
        number=number,
        parent=parent,
        batches=merged,
        batch=min(batch, math.ceil(low / merged)),
        passes=max(1, min(most, (calls - merged) // CALLS_AN_EDIT)),
        turn=turn,
        draw=draw,
        worth=dict(worth),
        lessons=tuple(lessons),
        earlier=tuple(earlier),
    )


def first_passes(number: int, sizes: SearchSizes) -> int:
    """Edits one after another of a proposal, at most: at the beginning fewer, if there is plenty.

    Nothing can run before the first draft is there. Where rollouts are not scarce, the first ones
    come one after another instead of all as late as the longest.

    Args:
        number: Of the proposal, from 1.
        sizes: How the budget is divided.
    """
    if sizes.rollouts < PLENTY or number > sizes.width:
        return sizes.passes
    return min(sizes.passes, 1 + (number - 1) * sizes.passes // sizes.width)


def lessons_for(
    parent: RaceEntry, beam: Sequence[RaceEntry], drafts: Mapping[int, PromptDraft]
) -> tuple[str, ...]:
    """Critiques behind members of the beam that a parent does not descend from."""
    line = set()
    one: RaceEntry | None = parent
    while one is not None:
        line.add(one.number)
        one = one.parent
    others = [c for c in beam if c.number and c.number not in line]
    return tuple(drafts[c.number].critique for c in others if drafts[c.number].critique)[:LESSONS]


def calls_of(order: EditOrder) -> int:
    """Coach calls that an order takes, at most."""
    return order.batches + CALLS_AN_EDIT * order.passes


def ranked(entries: Sequence[RaceEntry], race: Race[RaceEntry]) -> list[RaceEntry]:
    """Best first; of equals the shorter, then the earlier."""
    means = {one.number: race.standing(one).mean for one in entries}
    return sorted(entries, key=lambda one: (-round(means[one.number], 6), _length(one), one.number))


def _length(entry: RaceEntry) -> int:
    return sum(len(str(r)) for r in entry.candidate.resources.values())


def telling(entry: RaceEntry, tasks: Sequence[Task], shown: Iterable[str] = ()) -> list[Task]:
    """Tasks in an order in which a child of an entry is told apart soon.

    Tasks that the entry fails say what an edit gains, those that it solves what it breaks. The
    child should solve what the edit was made from (`shown`), and what was not shown as well: else
    it has only learned examples by heart. So they come in turn: two shown, one that fails and was
    not shown, one that is solved.

    Args:
        entry: The parent; only tasks on which it has a score are taken.
        tasks: Those to order.
        shown: Ids of the tasks that the edit was made from.
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
