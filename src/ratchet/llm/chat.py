"""Interface of a chat client: messages in, a reply with its cost out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from ratchet.types import Cost, RatchetError

Role: TypeAlias = Literal["system", "user", "assistant"]


COACH_STEP: ContextVar[str] = ContextVar("step of the coach", default="")
"""Purpose of the current call, set by the lab. Recorded in the call's trace; also seeds the model
draw."""


class Message(msgspec.Struct, frozen=True):
    """One chat message."""

    role: Role
    content: str


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A model's answer and its cost."""

    text: str
    """Text of the answer; empty if the model refused or the answer was empty."""
    data: Any = None
    """The answer parsed as JSON, if a schema was given and the answer fits it."""
    problem: str = ""
    """Why there is no usable answer: a refusal, a wrong format, a truncated answer. Empty if
    there is one."""
    model: str = ""
    """Name of the model that answered."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    """Dollars of all requests; None if the model's price is unknown."""
    seconds: float = 0.0
    """Seconds from the first request to the last byte, including retries."""
    requests: int = 1
    """Number of billed requests, including repairs."""

    @property
    def cost(self) -> Cost:
        """`cost_usd` as a Cost."""
        return Cost.of(self.cost_usd, self.model)


class CoachUnavailable(RatchetError):
    """The coach cannot be used: missing or invalid key, unknown model, unreachable server."""

    exit_code = 8


class KeyMissing(CoachUnavailable):
    """The coach cannot even be asked: there is no key, or its value cannot be a key."""


class ChatClient(Protocol):
    """Answers chat messages; implemented by Coach and by test doubles."""

    async def ask(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Any] | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        model: str | None = None,
    ) -> Reply:
        """Send messages to one model of the ensemble.

        Args:
            messages: The conversation so far.
            schema: JSON schema that the answer must fit.
            temperature: Sampling temperature; the coach's by default.
            max_tokens: Maximum number of tokens of the answer; the coach's by default.
            model: Name of a model of the ensemble; drawn by the ensemble by default.

        Raises:
            CoachUnavailable: No model is usable; retrying does not help.
        """
        ...

    def credit(self, model: str, survived: bool) -> None:
        """Report whether a proposal of a model survived; such models get more calls."""
        ...
