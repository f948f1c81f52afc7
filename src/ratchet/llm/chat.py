"""What asking a language model means here: messages in, a reply with its costs out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from ratchet.types import Cost, RatchetError

Role: TypeAlias = Literal["system", "user", "assistant"]


STEP: ContextVar[str] = ContextVar("step of the coach", default="")
"""What a call is for, as the lab names it: for its trace, and for which model is drawn."""


class Message(msgspec.Struct, frozen=True):
    """One message of a conversation with a coach."""

    role: Role
    content: str


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What a model answered and what that cost."""

    text: str
    """The answer's text; empty when the model refused or said nothing."""
    data: Any = None
    """The answer as JSON, when a schema was asked for and the answer fits it."""
    problem: str = ""
    """Why there is nothing usable: a refusal, another format, a cut answer. Empty when there is."""
    model: str = ""
    """The model that answered."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    """Dollars of all requests; None when the model's price is unknown."""
    seconds: float = 0.0
    """From the first request to the last byte, retries included."""
    requests: int = 1
    """Requests that were paid for: repairs of a malformed answer are requests too."""

    @property
    def cost(self) -> Cost:
        """What it cost, as a part of a sum."""
        return Cost.of(self.cost_usd, self.model)


class CoachUnavailable(RatchetError):
    """The coach cannot be asked: no key, a wrong key, no such model, nobody there."""

    exit_code = 8


class ChatClient(Protocol):
    """Answers messages; a Coach does, and a test's stand-in."""

    async def ask(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Any] | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        model: str | None = None,
    ) -> Reply:
        """Ask one model of the ensemble.

        Args:
            messages: The conversation so far.
            schema: JSON schema that the answer is to fit.
            temperature: Of sampling; the coach's own when left out.
            max_tokens: Of the answer; the coach's own when left out.
            model: One model of the ensemble by name; drawn by the ensemble when left out.

        Raises:
            CoachUnavailable: Nobody can be asked; trying again will not help.
        """
        ...

    def credit(self, model: str, survived: bool) -> None:
        """Hear whether a proposal of that model survived: calls move to models whose do."""
        ...
