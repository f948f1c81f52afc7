"""Chooses the outputs that people label next: the most informative, or a random sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from ratchet.types import Rollout, Score, content_hash

Item = TypeVar("Item")

THRESHOLD = 0.5
"""Minimum score of a right output."""


class LabelCase(msgspec.Struct, frozen=True, kw_only=True):
    """A rollout to label, with its scores."""

    rollout: Rollout
    scores: dict[str, Score]
    """By evaluator; only scores in [0, 1]."""

    def teaches(self, evaluator: str = "") -> float:
        """How informative a label of the rollout would be, from 0 to 2.

        It is the disagreement of the evaluators, plus how near the evaluator's score is to the
        threshold; of all evaluators' mean score, when none is named. Without scores it is 1.
        """
        values = [s.value for s in self.scores.values() if s.value is not None]
        if not values:
            return 1.0
        chosen = self.scores.get(evaluator)
        value = sum(values) / len(values) if chosen is None else chosen.value
        if value is None:
            return 1.0 + max(values) - min(values)  # unscored: as uncertain as can be
        return max(values) - min(values) + 1.0 - 2.0 * abs(value - THRESHOLD)


def label_cases(
    rollouts: Iterable[Rollout], scores: Mapping[str, Sequence[Score]]
) -> list[LabelCase]:
    """The rollouts that can be labelled, because the agent answered.

    Args:
        rollouts: Ended rollouts.
        scores: Their scores, by id.
    """
    return [
        LabelCase(
            rollout=rollout,
            scores={s.evaluator: s for s in scores.get(rollout.id, ()) if not s.unit},
        )
        for rollout in rollouts
        if rollout.status == "succeeded"
    ]


def most_instructive(cases: Iterable[LabelCase], evaluator: str = "") -> list[LabelCase]:
    """The cases, most informative first; equal inputs and outputs only once."""
    distinct = {content_hash([c.rollout.input, c.rollout.output]): c for c in cases}
    return sorted(distinct.values(), key=lambda case: -case.teaches(evaluator))


def in_random_order(items: Iterable[Item], id_of: Callable[[Item], str]) -> list[Item]:
    """The items in an order that depends only on their ids, for an unbiased sample.

    It is the same each time, so that labelling continues where it stopped.
    """
    return sorted(items, key=lambda item: content_hash(["label", id_of(item)]))
