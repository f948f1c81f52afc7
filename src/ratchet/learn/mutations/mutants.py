"""Mutants: functions with one to three random changes, made without a model or an API key.

The operators are in this package, one kind per file. Mutants parse, retain their signature, and are
typed well enough that most of them run: only a number replaces a number, and a name is used only
where it is bound. Only the changed text is replaced, so comments and layout are preserved.

A wrong number is mended by one value alone, and people write round ones: half of the mutants set a
number to a round value near by, each once, until those of the function have been tried.
"""

from __future__ import annotations

import random

from ratchet.learn.mutations.constants import Tried
from ratchet.learn.mutations.growing import OPERATORS, Grown, grow, grow_near
from ratchet.learn.mutations.kinds import Shapes
from ratchet.types import Code

EDITS = (0.7, 0.2, 0.1)
"""Probabilities of one, two or three changes per mutant."""

ROUND_VALUE_SHARE = 0.5
"""Share of mutants that set a number to a round value nearby, while some are untried."""

MAX_OPERATORS_TRIED = 12
"""Number of operators tried until one applies."""


class Mutants:
    """Makes functions with one mutation.

    Args:
        rng: Source of randomness.
        shapes: Object shapes of the functions' inputs.
    """

    def __init__(self, rng: random.Random, shapes: Shapes) -> None:
        self._rng = rng
        self._shapes = shapes
        self._tried: Tried = set()
        """Round values tried."""

    def of(self, code: Code, limit: int, donor: Code | None = None) -> Grown | None:
        """A mutant of a function; None if nothing could be changed.

        Args:
            code: The function.
            limit: Maximum number of characters.
            donor: A function with the same purpose, as a source of expressions.
        """
        rng, shapes = self._rng, self._shapes
        near = (
            grow_near(code, rng, self._tried, shapes) if rng.random() < ROUND_VALUE_SHARE else None
        )
        if near is not None:
            return near
        mutant, steps = code, list[Grown]()
        for _ in range(rng.choices((1, 2, 3), EDITS)[0]):
            grown = mutated(mutant, rng, donor, shapes)
            if grown is None or len(grown.code.source) > limit:
                break
            mutant, steps = grown.code, [*steps, grown]
        if not steps or mutant == code:
            return None
        what = "; ".join(grown.description for grown in steps)
        return Grown(code=mutant, description=what)


def mutated(
    code: Code,
    rng: random.Random,
    donor: Code | None = None,
    shapes: Shapes = (),
) -> Grown | None:
    """A function with one mutation; None if no operator applies.

    Args:
        code: The function.
        rng: Source of randomness.
        donor: A function with the same purpose, as a source of expressions.
        shapes: Object shapes of the function's inputs.
    """
    names = list(OPERATORS)
    odds = [weight for _, weight in OPERATORS.values()]
    for _ in range(MAX_OPERATORS_TRIED):
        name = rng.choices(names, odds)[0]
        grown = grow(code, name, rng, donor, shapes)
        if grown is not None:
            return grown
    return None
