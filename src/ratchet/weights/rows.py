"""Rows: the calls of a rollout as sequences to train on, with each generated token in exactly
one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ratchet.types import InputError, Transition, unpack_floats, unpack_ids
from ratchet.types.wording import counted
from ratchet.weights.sampler import GradedRollout


class GeneratedSpan(NamedTuple):
    """The position of a call's response in a row."""

    transition_id: str
    start: int
    """Index of the first response token."""
    stop: int
    """Index after the last response token."""


class TrainingRow(NamedTuple):
    """A sequence of tokens with the calls that generated parts of it.

    A call whose prompt begins with all tokens of a row continues it: what lies between, such as
    the result of a tool, is an observation and is not trained. Any other call begins a row of its
    own: its prompt was rewritten, or it branches off a call that was continued already.
    """

    rollout_id: str
    ids: NDArray[np.int32]
    """Shape (length,)."""
    mask: NDArray[np.bool_]
    """Shape (length,); True at generated tokens."""
    logprobs: NDArray[np.float32]
    """Shape (length,); under the sampler, natural logarithm; 0 at tokens that are not generated."""
    calls: tuple[GeneratedSpan, ...]
    """In the order of the row; they cover exactly the generated tokens."""


def rows_of(
    rollout: GradedRollout, *, vocabulary: int, mask_truncated: bool = False
) -> list[TrainingRow]:
    """Arrange the calls of a rollout into as few rows as possible.

    Args:
        rollout: Its calls, in any order.
        vocabulary: Size of the model's vocabulary.
        mask_truncated: Do not train responses that ended because they became too long.

    Raises:
        InputError: A call has no log-probabilities, or not one for each token, or one that is
            not a log-probability; or a token that is not in the vocabulary.
    """
    rows: list[_GrowingRow] = []
    for call in sorted(rollout.transitions, key=lambda call: call.call_index):
        _check(call, vocabulary)
        continued = [row for row in rows if call.prompt_ids.startswith(row.packed)]
        row = max(continued, key=lambda row: len(row.packed), default=None)
        if row is None:
            row = _GrowingRow()
            rows.append(row)
        row.append(call, trained=not (mask_truncated and call.finish_reason == "length"))
    return [row.finished(rollout.rollout_id) for row in rows if row.calls]


class _GrowingRow:
    """A row to which calls are appended."""

    def __init__(self) -> None:
        self.packed = b""
        self.mask: list[NDArray[np.bool_]] = []
        self.logprobs: list[NDArray[np.float32]] = []
        self.calls: list[GeneratedSpan] = []

    def append(self, call: Transition, *, trained: bool) -> None:
        observed = (len(call.prompt_ids) - len(self.packed)) // 4
        generated = len(call.response_ids) // 4
        self.packed = call.prompt_ids + call.response_ids
        logprobs = np.asarray(unpack_floats(call.logprobs), np.float32)
        trained = trained and generated > 0
        self.mask += [np.zeros(observed, bool), np.full(generated, trained)]
        self.logprobs += [np.zeros(observed, np.float32), logprobs if trained else logprobs * 0]
        if trained:
            stop = len(self.packed) // 4
            self.calls.append(GeneratedSpan(call.id, stop - generated, stop))

    def finished(self, rollout_id: str) -> TrainingRow:
        return TrainingRow(
            rollout_id,
            np.asarray(unpack_ids(self.packed), np.int32),
            np.concatenate(self.mask),
            np.concatenate(self.logprobs),
            tuple(self.calls),
        )


def _check(call: Transition, vocabulary: int) -> None:
    where = f"Call {call.id} of rollout {call.rollout_id}"
    tokens, logprobs = len(call.response_ids) // 4, unpack_floats(call.logprobs)
    if tokens and not len(logprobs):
        raise InputError(
            f"{where} has no log-probabilities for its {counted(tokens, 'token')}.",
            hint="Reinforcement learning needs an endpoint that returns them with the token ids,"
            " such as `ratchet model` or vLLM.",
        )
    if len(logprobs) != tokens:
        raise InputError(
            f"{where} has {len(logprobs)} log-probabilities for {counted(tokens, 'token')}."
        )
    values = np.asarray(logprobs)
    if not np.all(np.isfinite(values) & (values <= 1e-3)):  # rounding can exceed 0
        raise InputError(f"{where} has a log-probability that is above 0 or not a number.")
    if not call.prompt_ids:
        raise InputError(f"{where} has no prompt tokens.")
    check_vocabulary(unpack_ids(call.prompt_ids + call.response_ids), vocabulary, where)


def check_vocabulary(ids: Any, vocabulary: int, where: str) -> None:
    """Check that each token is in the model's vocabulary.

    Raises:
        InputError: It does not.
    """
    tokens = np.asarray(ids)
    unknown = tokens[(tokens < 0) | (tokens >= vocabulary)]
    if len(unknown):
        raise InputError(
            f"{where} has token {unknown[0]}, but the vocabulary is only 0 to {vocabulary - 1}.",
            hint="It was generated with another tokenizer. Train the model that generated it.",
        )
