"""Messages between the tool and a host, over a socket pair."""

from __future__ import annotations

import struct
from typing import Any, Literal, TypeAlias

import msgspec

from ratchet.observe.instruments.table import Misfit
from ratchet.types import Declaration, Rollout, Score, Span
from ratchet.worker.agent import AgentSpec
from ratchet.worker.evaluator import EvaluatorBasis, OnError

HEADER = struct.Struct("!I")
"""Length of the JSON message that follows."""


class DescribeAgent(msgspec.Struct, frozen=True, tag=True):
    """Load an agent and describe it."""

    agent: AgentSpec


class AgentVersion(msgspec.Struct, frozen=True, tag=True):
    """Hash the sources of the agent, and of what has been loaded since."""


class CheckInput(msgspec.Struct, frozen=True, tag=True):
    """Check that a task's input fits the agent's parameters."""

    value: Any


class DescribeEvaluator(msgspec.Struct, frozen=True, tag=True):
    """Create one of the user's evaluators and describe it."""

    use: str
    """MODULE:FUNCTION."""
    options: dict[str, Any]


class JudgeRollout(msgspec.Struct, frozen=True, tag=True):
    """Score a rollout."""

    use: str
    options: dict[str, Any]
    rollout: Rollout
    spans: list[Span]
    """The rollout's spans; empty unless the evaluator asks for them."""


class AgentDescription(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """A loaded agent."""

    kind: str
    is_async: bool
    declarations: dict[str, Declaration]
    optional: tuple[str, ...]
    docstring: str
    loaded_version: str
    misfits: list[Misfit]


class EvaluatorDescription(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """One of the user's evaluators."""

    name: str
    unit: str
    version: str
    asks_for: tuple[str, ...]
    needs_expected: bool
    basis: EvaluatorBasis
    on_error: OnError | None
    timeout_s: float


class Text(msgspec.Struct, frozen=True, tag=True):
    """A text; empty if a check found nothing."""

    text: str


class Judged(msgspec.Struct, frozen=True, tag=True):
    """The score of a rollout."""

    score: Score


class NotJudged(msgspec.Struct, frozen=True, tag=True):
    """An evaluator raised an exception."""

    kind: str
    """Name of the exception's type."""
    said: str
    outage: bool
    """Whether it comes from the environment and not from the answer; see `is_outage`."""


class HostRefusal(msgspec.Struct, frozen=True, tag=True):
    """The request cannot be answered."""

    kind: Literal["AgentError", "ConfigError", "InputError"]
    message: str
    hint: str | None


Request: TypeAlias = DescribeAgent | AgentVersion | CheckInput | DescribeEvaluator | JudgeRollout
Reply: TypeAlias = AgentDescription | EvaluatorDescription | Text | Judged | NotJudged | HostRefusal


class HostRequest(msgspec.Struct, frozen=True):
    """A request and its number."""

    number: int
    request: Request


class HostReply(msgspec.Struct, frozen=True):
    """The reply to the request with this number."""

    number: int
    reply: Reply


_encode = msgspec.json.Encoder().encode
decode_request = msgspec.json.Decoder(HostRequest).decode
decode_reply = msgspec.json.Decoder(HostReply).decode


def frame(message: HostRequest | HostReply) -> bytes:
    """Encode a message, preceded by its length."""
    body = _encode(message)
    return HEADER.pack(len(body)) + body
