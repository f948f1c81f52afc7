"""The operators by name, and their application to a function."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import msgspec

from ratchet.learn.mutations import constants, formulas, operators, orderings
from ratchet.learn.mutations.kinds import Shapes
from ratchet.learn.mutations.splicing import TextChange, made
from ratchet.learn.mutations.tree import FunctionTree
from ratchet.types import Code, InputError

Mutate: TypeAlias = Callable[[FunctionTree, random.Random, FunctionTree | None], TextChange | None]


class Grown(msgspec.Struct, frozen=True, kw_only=True):
    """A mutated function."""

    code: Code
    description: str
    """The change, for the candidate's reason."""


OPERATORS: dict[str, tuple[Mutate, float]] = {
    "round": (constants.rounded, 1.0),
    "nudge": (constants.nudge, 2.0),
    "leap": (constants.leap, 1.5),
    "comparison": (operators.comparison, 0.8),
    "arithmetic": (operators.arithmetic, 1.0),
    "sort_key": (orderings.sort_key, 1.0),
    "sequence": (orderings.sequence, 0.8),
    "formula": (formulas.formula, 2.0),
    "key": (formulas.key, 0.7),
    "graft": (formulas.graft, 0.6),
}
"""Operators by name, each with the weight by which it is drawn."""


def grow(
    code: Code,
    name: str,
    rng: random.Random,
    donor: Code | None = None,
    shapes: Shapes = (),
) -> Grown | None:
    """Apply one operator to a function; None if it does not apply.

    Args:
        code: The function.
        name: Name of the operator.
        rng: Source of randomness.
        donor: A function with the same purpose, as a source of expressions.
        shapes: Object shapes of the function's inputs.
    """
    tree = _tree(code.source, shapes)
    change = OPERATORS[name][0](tree, rng, _tree(donor.source, shapes) if donor else None)
    return _grown(code, tree, change)


def grow_near(
    code: Code, rng: random.Random, tried: constants.Tried, shapes: Shapes = ()
) -> Grown | None:
    """Set a number of a function to a round value nearby; None if all of them were tried.

    Args:
        code: The function.
        rng: Source of randomness.
        tried: The values tried so far; the new one is added.
        shapes: Object shapes of the function's inputs.
    """
    tree = _tree(code.source, shapes)
    return _grown(code, tree, constants.near(tree, rng, tried))


def _grown(code: Code, tree: FunctionTree, change: TextChange | None) -> Grown | None:
    if change is None:
        return None
    source = made(tree, change)
    if source is None or source.strip() == code.source.strip():
        return None
    try:
        return Grown(code=Code(source, code.function), description=change.description)
    except InputError:
        return None


@lru_cache(maxsize=256)
def _tree(source: str, shapes: Shapes) -> FunctionTree:
    return FunctionTree(source, shapes)
