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
    """A model call of a rollout, with exact tokens: nothing in it is tokenised again.

    The ids are packed by `pack_ids` and the log-probabilities by `pack_floats`.
    """

    id: str
    """The span id of the call. A call with several choices has one transition for each; further
    ones end with `.1`, `.2` and so on."""
    rollout_id: str
    fence: int
    """The attempt, by its fencing token."""
    call_index: int = 0
    """Place among the attempt's calls, in the order of their starts, from 0. The store sets it when
    it reads."""
    role: str = ""
    """The role of the agent that made the call, such as `planner`; empty for a single agent."""
    parent: str | None = None
    """The earlier transition of the attempt and role whose prompt and response are the beginning
    of this call's prompt, token by token: the longest such transition, and the latest of equally
    long ones. None: this call begins a branch. The store sets it when it reads."""
    model: str = ""
    """The model's name in the request that the engine received."""
    response_id: str = ""
    """The engine's id of the response, such as `chatcmpl-1`."""
    version_first: str = ""
    """Version of the weights that chose the first token: the adapter's content hash, or the
    engine's name for it; empty if the engine states none."""
    version_last: str = ""
    """Version of the weights that chose the last token."""
    tokenizer: str = ""
    """Content hash of the tokenizer; empty if the engine states none."""
    template: str = ""
    """Content hash of the chat template; empty if the engine states none."""
    prompt_ids: bytes = b""
    response_ids: bytes = b""
    logprobs: bytes = b""
    """Log-probability of each response id under the sampler, natural logarithm."""
    sampling: SamplingSettings = SamplingSettings()
    finish_reason: str = ""
    """As in OpenAI's API: stop, length, tool_calls, content_filter."""
    started_ns: int
    """Start of the call, Unix nanoseconds."""
    ended_ns: int
    """End of the call, Unix nanoseconds."""
    drop: str = ""
    """Why the call's tokens are unknown, such as `no_logprobs`; it has none then. Empty for a
    call that is kept."""


class KeptTokens(msgspec.Struct, frozen=True, kw_only=True):
    """How much is kept of a rollout's newest attempt."""

    transitions: int = 0
    prompt_tokens: int = 0
    """Tokens of continued conversations count once for each call, as the engine read them."""
    response_tokens: int = 0
    dropped: dict[str, int] = {}
    """Number of calls whose tokens are unknown, by reason."""


REWARD_SPAN = "reward"
"""Name of a span that rewards a model call."""

REWARD_VALUE, REWARD_CALL = "ratchet.reward.value", "ratchet.reward.response_id"
"""Attributes of such a span: the number; and the id of the rewarded response. Without an id, the
latest call before the span is rewarded."""

TRAIN = "train"
"""Part of the purpose of rollouts that train a model, as in `train/RUN/BATCH`."""


def trains(purpose: str) -> bool:
    """Whether rollouts of a purpose train a model, so that their calls' tokens are kept."""
    return TRAIN in purpose.split("/")


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
