"""A coach that is asked no more often than is allowed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ratchet.curate.synthesis.spending import MethodEnded
from ratchet.llm import ChatClient, Message, Reply
from ratchet.types import Cost, total_cost

MOST_CALLS = 6
"""Questions to the coach for one page: an opinion, evaluators, and tasks."""
MOST_TOKENS = 8_000
"""Tokens of one answer, reasoning included."""


class CountedCoach:
    """A chat client that counts the questions to the coach and what they cost.

    Args:
        coach: The coach.
        most_calls: Questions that it may be asked.
    """

    def __init__(self, coach: ChatClient, most_calls: int = MOST_CALLS) -> None:
        self._coach = coach
        self._most = most_calls
        self._costs: list[Cost] = []
        self.calls = 0
        """Questions asked."""
        self.model = ""
        """Name that the coach's answers report."""

    @property
    def cost(self) -> Cost:
        """Cost of the answers."""
        return total_cost(self._costs)

    async def ask(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Any] | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        model: str | None = None,
    ) -> Reply:
        """See `ChatClient.ask`.

        Raises:
            MethodEnded: It was asked as often as is allowed.
        """
        if self.calls >= self._most:
            raise MethodEnded(f"The coach was asked {self.calls} times, which is the most.")
        self.calls += 1
        reply = await self._coach.ask(
            messages, schema=schema, temperature=temperature, max_tokens=MOST_TOKENS, model=model
        )
        self._costs.append(reply.cost)
        self.model = reply.model or self.model
        return reply

    def credit(self, model: str, survived: bool) -> None:
        """See `ChatClient.credit`."""
