"""Checks of examples before they are trained on."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ratchet.types import InputError
from ratchet.types.wording import counted
from ratchet.weights.examples import TokenExample
from ratchet.weights.learner import Learner
from ratchet.weights.rows import check_vocabulary


def check_examples(learner: Learner, examples: Iterable[tuple[str, TokenExample]]) -> None:
    """Check that a learner can train on examples.

    Args:
        learner: The learner.
        examples: With a name each, as the subject of an error message.

    Raises:
        InputError: One has no token to learn, a mask of another length, a token that the model
            does not know, or more tokens than its context.
    """
    for name, example in examples:
        if len(example.mask) != len(example.ids):
            raise InputError(
                f"{name} has {counted(len(example.ids), 'token')}, but its mask has "
                f"{len(example.mask)}."
            )
        if not np.any(example.mask) or example.mask[0]:
            raise InputError(
                f"{name} must mark a token to learn, but not the first one, which nothing predicts."
            )
        if len(example.ids) > learner.base.context:
            raise InputError(
                f"{name} has {counted(len(example.ids), 'token')}; the context of "
                f"{learner.base.name} is {learner.base.context}.",
                hint="Leave it out, or train a model with a longer context.",
            )
        check_vocabulary(example.ids, learner.vocabulary, name)
