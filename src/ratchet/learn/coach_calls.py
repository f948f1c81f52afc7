"""Coach calls: the content key of a question, and calls charged to the budget."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec

from ratchet.learn.budget import BudgetExhausted, BudgetLedger
from ratchet.llm import (
    COACH_STEP,
    ChatClient,
    CoachUnavailable,
    Message,
    Reply,
    ask_paid,
    paid_from,
)
from ratchet.llm.hosted_model import HOSTED_MODEL
from ratchet.types import content_hash

LATE_ANSWERS_TIMEOUT_S = 10.0
"""Seconds to wait for answers that are no longer needed."""


class CoachQuestion(msgspec.Struct, frozen=True):
    """The request of a coach call."""

    messages: tuple[Message, ...]
    temperature: float | None = None
    model: str | None = None

    @property
    def digest(self) -> str:
        """Content hash; equal for identical requests."""
        request = [[m.role, m.content] for m in self.messages]
        return content_hash([request, self.temperature, self.model])


class PendingCoachCalls:
    """The coach calls of a lab that are in flight.

    A search that ends leaves drafts behind, and the calls made for them are charged regardless: so
    a call continues when its caller is cancelled, and the answer is journaled.
    """

    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[Reply]] = set()

    async def finish(self, call: Coroutine[Any, Any, Reply]) -> Reply:
        """The reply to a call, which runs to completion even if the caller is cancelled."""
        task = asyncio.create_task(call)
        self._under_way.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    async def settle(self) -> None:
        """Wait up to `LATE_ANSWERS_TIMEOUT_S` for calls in flight; cancel the rest."""
        if not self._under_way:
            return
        _, late = await asyncio.wait(self._under_way, timeout=LATE_ANSWERS_TIMEOUT_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Reply]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # marks the exception as retrieved: it reaches the waiter, if any


async def ask_and_charge(
    coach: ChatClient | None,
    question: CoachQuestion,
    *,
    step: str,
    key: str,
    ledger: BudgetLedger,
    append: Callable[[str, Any], Any],
    flush: Callable[[], Awaitable[None]],
) -> Reply:
    """Call the coach, charge the cost, and journal the reply.

    Args:
        coach: The client.
        question: The request.
        step: Name of the call, for its span.
        key: Journal key of the reply.
        ledger: The ledger to charge.
        append: Adds an entry to the journal.
        flush: Waits until added entries are written.

    Raises:
        BudgetExhausted: The dollars or coach calls are spent; no call was made.
        CoachUnavailable: No coach is configured, or it cannot be reached.
    """
    if coach is None:
        raise CoachUnavailable(
            "This algorithm needs a coach model, and none is configured.",
            hint=f'Name one under [coach] in ratchet.toml: model = "{HOSTED_MODEL}".',
        )
    reached = ledger.refusal(coach_calls=1)
    if reached:
        raise BudgetExhausted(f"Another coach call would exceed the budget: {reached}.")
    ledger.take_call(key)
    asking = COACH_STEP.set(step)
    try:
        with paid_from(ledger.account):
            reply = await ask_paid(
                coach,
                question.messages,
                kind="coach",
                temperature=question.temperature,
                model=question.model,
            )
    except BaseException:
        ledger.give_back_call(key)
        raise
    finally:
        COACH_STEP.reset(asking)
    # Before any await: a cancellation from here on must not lose the reply.
    append(key, msgspec.to_builtins(reply))
    await flush()  # a reply that a kill could lose, and so charge twice, must not be used
    return reply


def paid_before(journaled: Any, key: str, ledger: BudgetLedger) -> Reply:
    """A reply from the journal: counted in this run's budget, without another call."""
    reply = msgspec.convert(journaled, Reply)
    if ledger.fresh([key]):
        ledger.take_call(key)
        ledger.pay([reply.cost])
    return reply
