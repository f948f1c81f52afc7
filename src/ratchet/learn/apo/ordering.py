"""What the next proposal is made from: which parent, how many critiques, of how many rollouts."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence

from ratchet.learn.apo.coaching import CALLS_AN_EDIT, Draft, Order
from ratchet.learn.apo.sizes import Sizes
from ratchet.learn.contenders import Contender, Estimate

MERGED = 3
"""Critiques that one edit is made from, at most."""

PLENTY = 600
"""Rollouts from which on the first drafts are made in less time."""

LESSONS = 2
"""Critiques that led to something better elsewhere, shown to an edit."""

Standing = Callable[[Contender], Estimate]


def drawn_parent(beam: Sequence[Contender], standing: Standing, rng: random.Random) -> Contender:
    """A member of the beam: one drawn by what it may be worth (Thompson sampling)."""
    able = [contender for contender in beam if contender.failing()]
    drawn = [standing(c).value + rng.gauss(0.0, 1.0) * _doubt(c, standing(c)) for c in able]
    return able[max(range(len(able)), key=lambda n: (drawn[n], -n))]


def _doubt(contender: Contender, standing: Estimate) -> float:
    """How far a member of the beam may be from what it seems: as far as few tasks tell."""
    measured = max(1, len(contender.values()))
    return math.sqrt(standing.deviation**2 + 0.1 / measured / 4)


def order_of(
    number: int,
    parent: Contender,
    *,
    turn: int,
    batch: int,
    passes: int,
    calls: int,
    luck: float,
    worth: Mapping[str, float],
    lessons: Sequence[str],
    earlier: Sequence[str],
) -> Order:
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
        luck: Which prompt is edited.
        worth: How often edits of each prompt were kept.
        lessons: Critiques that led to something better elsewhere.
        earlier: Why earlier edits of the parent could not be tried.
    """
    low = len(parent.failing())
    merged = max(1, min(MERGED, low, calls - CALLS_AN_EDIT)) if turn % 2 == 0 else 1
    most = passes if merged > 1 else passes - 1
    return Order(
        number=number,
        parent=parent,
        batches=merged,
        batch=min(batch, math.ceil(low / merged)),
        passes=max(1, min(most, (calls - merged) // CALLS_AN_EDIT)),
        turn=turn,
        luck=luck,
        worth=dict(worth),
        lessons=tuple(lessons),
        earlier=tuple(earlier),
    )


def first_passes(number: int, sizes: Sizes) -> int:
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
    parent: Contender, beam: Sequence[Contender], drafts: Mapping[int, Draft]
) -> tuple[str, ...]:
    """Critiques behind members of the beam that a parent does not descend from."""
    line = {contender.number for contender in parent.lineage()}
    others = [c for c in beam if c.number and c.number not in line]
    return tuple(drafts[c.number].critique for c in others if drafts[c.number].critique)[:LESSONS]


def calls_of(order: Order) -> int:
    """Coach calls that an order takes, at most."""
    return order.batches + CALLS_AN_EDIT * order.passes


def ranked(contenders: Sequence[Contender], standing: Standing) -> list[Contender]:
    """Best first; of equals the shorter, then the earlier."""
    worth = {c.number: standing(c).value for c in contenders}
    return sorted(contenders, key=lambda c: (-round(worth[c.number], 6), _length(c), c.number))


def _length(contender: Contender) -> int:
    return sum(len(str(r)) for r in contender.candidate.resources.values())
