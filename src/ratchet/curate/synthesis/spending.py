"""Coach calls of a synthesis: journaled, so that a killed one repeats none, and bounded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ratchet.llm import STEP, ChatClient, Message, Reply
from ratchet.store.journal import Journal
from ratchet.types import Cost, RatchetError, content_hash, total_cost


class MethodEnded(RatchetError):
    """A method cannot go on: a bound is reached, or the coach's answers are of no use."""


class BoundedCoach:
    """A coach that charges its calls.

    Args:
        coach: The coach.
        journal: Where replies are kept.
        run_id: Under which they are kept.
        max_calls: Maximum number of calls; unlimited when None.
        max_dollars: No call begins once so much is spent; unlimited when None. Calls in flight may
            exceed it by their own cost.
    """

    def __init__(
        self,
        coach: ChatClient,
        journal: Journal,
        run_id: str,
        *,
        max_calls: int | None = None,
        max_dollars: float | None = None,
    ) -> None:
        self._coach = coach
        self._journal = journal
        self._run_id = run_id
        self._max_calls = max_calls
        self._max_dollars = max_dollars
        self._costs: list[Cost] = []
        self.calls = 0
        """Calls charged, those of an interrupted run included."""

    @property
    def cost(self) -> Cost:
        """Cost of the calls charged."""
        return total_cost(self._costs)

    async def ask(
        self,
        step: str,
        messages: Sequence[Message],
        schema: Mapping[str, Any],
        temperature: float | None = None,
    ) -> Reply:
        """Ask the coach, or return the reply that an interrupted run paid for.

        Args:
            step: Name of the call, different for each.
            messages: The conversation.
            schema: JSON schema of the answer.
            temperature: Sampling temperature; the coach's by default.

        Raises:
            MethodEnded: A bound is reached; no call was made.
            CoachUnavailable: The coach cannot be used.
        """
        said = [[message.role, message.content] for message in messages]
        key = f"synthesize/{step}/{content_hash([said, schema, temperature])}"
        kept = await asyncio.to_thread(self._journal.get, self._run_id, key)
        if kept is None:
            self._check()
        self.calls += 1
        if kept is None:
            token = STEP.set(f"synthesize {step}")
            try:
                reply = await self._coach.ask(messages, schema=schema, temperature=temperature)
            except BaseException:
                self.calls -= 1
                raise
            finally:
                STEP.reset(token)
            # Charged before it can be cancelled.
            self._costs.append(reply.cost)
            body = msgspec.to_builtins(reply)
            await asyncio.to_thread(self._journal.append, self._run_id, key, body, time.time())
            return reply
        reply = msgspec.convert(kept, Reply)
        self._costs.append(reply.cost)
        return reply

    def _check(self) -> None:
        if self._max_calls is not None and self.calls >= self._max_calls:
            raise MethodEnded(f"{self.calls} coach calls are made, which is the maximum.")
        cost = self.cost
        if self._max_dollars is None:
            return
        if cost.unpriced:
            raise MethodEnded(
                "The price of the coach is unknown, so a maximum in dollars cannot be kept.",
                hint="Give input_price and output_price under [coach], or bound the calls instead.",
            )
        if cost.known_usd >= self._max_dollars:
            raise MethodEnded(f"{cost} are spent, and the maximum is ${self._max_dollars:g}.")
