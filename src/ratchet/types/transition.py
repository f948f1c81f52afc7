"""Transitions: the model calls of a rollout, as the tokens that the engine read and wrote."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from typing import Any, Literal

import msgspec


class SamplingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the engine chose the tokens. None: not stated in the request or the response."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """One model call of a rollout, with exact tokens: nothing in it is tokenised again.

    The ids are packed by `pack_ids` and the log-probabilities by `pack_floats`.
    """

    id: str
    """The span id of the call."""
    rollout_id: str
    fence: int
    """The attempt, by its fencing token."""
    call_index: int
    """Place among the attempt's calls, in the order of their starts, from 0."""
    role: str = ""
    """The role of the agent that made the call, such as `planner`; empty for a single agent."""
    parent: str | None = None
    """The latest earlier call of the attempt whose prompt and response are the beginning of this
    call's prompt, token by token. None: this call begins a branch."""
    model: str
    """The model's name in the request that the engine received."""
    version_first: str = ""
    """Version of the weights that chose the first token: the adapter's content hash, or the
    engine's name of it; empty when the engine states none."""
    version_last: str = ""
    """Version of the weights that chose the last token."""
    tokenizer: str = ""
    """Content hash of the tokenizer; empty when the engine states none."""
    template: str = ""
    """Content hash of the chat template; empty when the engine states none."""
    prompt_ids: bytes
    response_ids: bytes
    logprobs: bytes
    """Log-probability of each response id under the sampler, natural logarithm."""
    sampling: SamplingSettings = SamplingSettings()
    finish_reason: str = ""
    """As in OpenAI's API: stop, length, tool_calls, content_filter."""
    started_ns: int
    """Start of the call, Unix nanoseconds."""
    ended_ns: int
    """End of the call, Unix nanoseconds."""


def pack_ids(ids: Iterable[int]) -> bytes:
    """Pack token ids into little-endian int32.

    Raises:
        OverflowError: An id does not fit.
    """
    return _packed("i", ids)


def unpack_ids(packed: bytes) -> array[int]:
    """The token ids in `packed`."""
    return _unpacked("i", packed)


def pack_floats(values: Iterable[float]) -> bytes:
    """Pack numbers into little-endian float32."""
    return _packed("f", values)


def unpack_floats(packed: bytes) -> array[float]:
    """The numbers in `packed`."""
    return _unpacked("f", packed)


def _packed(code: Literal["i", "f"], values: Iterable[float]) -> bytes:
    numbers = array(code, values)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def _unpacked(code: Literal["i", "f"], packed: bytes) -> array[Any]:
    numbers: array[Any] = array(code)
    numbers.frombytes(packed)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
