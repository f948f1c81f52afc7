"""Coach calls of a synthesis: bounded, and journaled so that none is repeated after a kill."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ratchet.llm import COACH_STEP, Account, ChatClient, Message, Reply, ask_paid
from ratchet.store.journal import Journal
from ratchet.types import BudgetExhausted, Cost, RatchetError, content_hash


class MethodEnded(RatchetError):
    """A method cannot continue: a bound is reached, or the coach's answers are unusable."""


class BoundedCoach:
    """A coach that charges its calls.

    Args:
        coach: The coach.
        journal: Where replies are kept.
        run_id: The run that they are kept under.
        max_calls: Maximum number of calls; unlimited when None.
        max_dollars: Maximum of what the calls cost; unlimited when None.
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
        self._account = Account(max_dollars, name="The maximum")
        self.calls = 0
        """Calls charged, including those of an interrupted run."""

    @property
    def cost(self) -> Cost:
        """Cost of the calls charged."""
        return self._account.cost

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
        contents = [[message.role, message.content] for message in messages]
        key = f"synthesize/{step}/{content_hash([contents, schema, temperature])}"
        recorded = await asyncio.to_thread(self._journal.get, self._run_id, key)
        if recorded is None:
            self._check()
        self.calls += 1
        if recorded is None:
            token = COACH_STEP.set(f"synthesize {step}")
            try:
                reply = await ask_paid(
                    self._coach,
                    messages,
                    kind="synthesizer",
                    schema=schema,
                    temperature=temperature,
                    own=self._account,
                )
            except BudgetExhausted as error:
                self.calls -= 1
                raise MethodEnded(error.message, hint=error.hint) from None
            except BaseException:
                self.calls -= 1
                raise
            finally:
                COACH_STEP.reset(token)
            body = msgspec.to_builtins(reply)
            await asyncio.to_thread(self._journal.append, self._run_id, key, body, time.time())
            return reply
        reply = msgspec.convert(recorded, Reply)
        self._account.add([reply.cost])
        return reply

    def _check(self) -> None:
        if self._max_calls is not None and self.calls >= self._max_calls:
            raise MethodEnded(f"{self.calls} coach calls were made, which is the maximum.")
        if self._account.dollars is not None and self.cost.unpriced:
            raise MethodEnded(
                "The price of the coach is unknown, so a maximum in dollars cannot be enforced.",
                hint="Give input_price and output_price under [coach], or limit the number of "
                "calls instead.",
            )
