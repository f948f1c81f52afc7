"""Rows for verl: a group of rollouts as prompts and responses, with the advantage of each token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ratchet.weights.advantage import Scale, group_advantages, usable
from ratchet.weights.rows import TrainingRow, rows_of
from ratchet.weights.sampler import GradedRollout


class Credit(NamedTuple):
    """Settings that say how advantages are computed, and which tokens are trained."""

    scale: Scale = "none"
    discount: float = 1.0
    call_weight: float = 1.0
    mask_truncated: bool = False


class VerlRow(NamedTuple):
    """A row as verl divides it: the prompt ends where the first response begins."""

    prompt: NDArray[np.int64]
    """Shape (prompt length,)."""
    response: NDArray[np.int64]
    """Shape (response length,); observations between calls are part of it."""
    mask: NDArray[np.int64]
    """Shape (response length,); 1 at generated tokens."""
    logprobs: NDArray[np.float32]
    """Shape (response length,); under the sampler, 0 at observations."""
    spans: tuple[tuple[int, int, float], ...]
    """Begin, end and advantage of each call, by index into the response."""
    reward: float
    """Reward of the whole rollout."""
    calls: int
    """Number of model calls in the whole rollout."""


def group_rows(
    group: Sequence[GradedRollout], *, vocabulary: int, credit: Credit
) -> list[list[VerlRow]]:
    """The rows of each rollout of a task, in the order of the rollouts.

    Advantages are computed over the whole group before anything is left out. A rollout without a
    reward has no rows; neither has one that called no model.

    Args:
        group: All rollouts of one task.
        vocabulary: Size of the model's vocabulary.
        credit: Settings.

    Raises:
        InputError: A call has no log-probabilities, or tokens of another model.
    """
    advantages = group_advantages(
        group, discount=credit.discount, scale=credit.scale, call_weight=credit.call_weight
    )
    return [
        [
            _cut(row, advantages.by_call, rollout)
            for row in rows_of(rollout, vocabulary=vocabulary, mask_truncated=credit.mask_truncated)
        ]
        if usable(rollout)
        else []
        for rollout in group
    ]


def _cut(row: TrainingRow, advantages: dict[str, float], rollout: GradedRollout) -> VerlRow:
    first = row.calls[0].start
    return VerlRow(
        prompt=row.ids[:first].astype(np.int64),
        response=row.ids[first:].astype(np.int64),
        mask=row.mask[first:].astype(np.int64),
        logprobs=row.logprobs[first:],
        spans=tuple(
            (call.start - first, call.stop - first, advantages.get(call.transition_id, 0.0))
            for call in row.calls
        ),
        reward=float(rollout.reward or 0.0),
        calls=len(rollout.transitions),
    )


def encode_index(uid: str, row: VerlRow) -> str:
    """The group's id with the advantages of a row's calls, as verl passes it to the estimator.

    verl hands an estimator the rewards, the mask and each row's `uid`, and nothing else of ours.
    """
    spans = ",".join(f"{begin}:{end}={value!r}" for begin, end, value in row.spans)
    return f"{uid}#{spans}"


def decode_index(index: str) -> list[tuple[int, int, float]]:
    """The spans in an index; a row that verl added to fill a batch has none."""
    _, mark, packed = index.rpartition("#")
    spans = []
    for part in packed.split(",") if mark else ():
        place, _, value = part.partition("=")
        begin, _, end = place.partition(":")
        spans.append((int(begin), int(end), float(value)))
    return spans
