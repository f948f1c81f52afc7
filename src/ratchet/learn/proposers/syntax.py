"""The `ast` proposer: mutates the syntax trees of functions, without a model or an API key.

The operators are in `mutations/`, one kind per file, and weighted by their survival rates (adaptive
operator selection: Fialho et al. 2010). Mutants parse, retain their signature, and are typed well
enough that most of them run: only a number replaces a number, and a name is used only where it is
bound. Only the changed text is replaced, so comments and layout are preserved.

A wrong number is mended by one value alone, and people write round ones: half of the drafts set a
number to a round value near by, each once, until those of the function have been tried.
"""

from __future__ import annotations

import random
import weakref
from collections.abc import Mapping, Sequence

from ratchet.learn.lab import Lab
from ratchet.learn.proposers.mutations import (
    OPERATORS,
    Grown,
    Shapes,
    Tried,
    grow,
    grow_near,
    shapes_of,
)
from ratchet.learn.proposers.proposer import Draft, ProposalRequest
from ratchet.types import Code, Resource

EDITS = (0.7, 0.2, 0.1)
"""Probabilities of one, two or three changes per mutant."""

NEAR = 0.5
"""Share of mutants that set a number to a round value near by, while some are untried."""

TRIES = 12
"""Number of operators tried until one applies."""


class SyntaxProposer:
    """Mutates functions."""

    name = "ast"

    def __init__(self) -> None:
        self._tried: weakref.WeakKeyDictionary[Lab, Tried] = weakref.WeakKeyDictionary()
        """Round values tried, by run."""

    def suits(self, resource: Resource) -> bool:
        """Whether the resource is a function."""
        return isinstance(resource, Code)

    async def propose(self, case: ProposalRequest, lab: Lab) -> Sequence[Draft]:
        """Mutate one of the targets for each requested draft."""
        rng = random.Random(case.seed)  # noqa: S311 - reproducible, not secret
        tried = self._tried.setdefault(lab, set())
        return [self._draft(case, rng, tried) for _ in range(case.count)]

    def _draft(self, case: ProposalRequest, rng: random.Random, tried: Tried) -> Draft:
        name = rng.choice(case.targets)
        code, own = case.parent.resources[name], case.baseline.resources[name]
        other = case.inspiration.resources[name] if case.inspiration else None
        assert isinstance(code, Code)
        assert isinstance(own, Code)
        giver = other if isinstance(other, Code) else None
        shapes = shapes_of(example.input for example in case.examples)
        limit = int(case.max_growth * len(own.source)) + 400
        made, done = code, list[Grown]()
        near = grow_near(code, rng, tried, shapes) if rng.random() < NEAR else None
        if near is not None:
            made, done = near.code, [near]
        for _ in range(0 if near else rng.choices((1, 2, 3), EDITS)[0]):
            grown = mutated(made, case.weights, rng, giver, shapes)
            if grown is None or len(grown.code.source) > limit:
                break
            made, done = grown.code, [*done, grown]
        if not done or made == code:
            return Draft(operator="none", problem=f"Nothing in {name!r} could be changed.")
        what = "; ".join(grown.description for grown in done)
        return Draft(
            resources={name: made}, operator=done[0].operator, reason=f"In {name!r}: {what}."
        )


def mutated(
    code: Code,
    weights: Mapping[str, float],
    rng: random.Random,
    other: Code | None = None,
    shapes: Shapes = (),
) -> Grown | None:
    """A function with one mutation; None if no operator applies.

    Args:
        code: The function.
        weights: Weights of operators by name; 1 for those not listed.
        rng: Source of randomness.
        other: A function with the same purpose, as a source of expressions.
        shapes: Object shapes of the function's inputs.
    """
    names = list(OPERATORS)
    odds = [OPERATORS[name].weight * weights.get(name, 1.0) for name in names]
    for _ in range(TRIES):
        name = rng.choices(names, odds)[0]
        grown = grow(code, name, rng, other, shapes)
        if grown is not None:
            return grown
    return None
