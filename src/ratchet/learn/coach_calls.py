"""A question to the coach: what makes it the same as another, and asking it for money."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

import msgspec

from ratchet.learn.budget import BudgetExhausted, BudgetLedger
from ratchet.llm import STEP, ChatClient, CoachUnavailable, Message, Reply
from ratchet.types import content_hash

LATE_S = 10.0
"""How long answers are waited for that nobody needs any more."""


class CoachQuestion(msgspec.Struct, frozen=True):
    """What a coach is asked."""

    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    model: str | None = None

    @property
    def digest(self) -> str:
        """The same for what would be asked in the same words."""
        asked = [[m.role, m.content] for m in self.messages]
        return content_hash([asked, self.schema, self.temperature, self.max_tokens, self.model])


class PendingCoachCalls:
    """The coach calls of a lab that are under way.

    A search that ends leaves drafts behind, and what was asked for them is paid for all the same:
    so a question goes on when nobody waits for its answer any more, and the answer is kept.
    """

    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[Reply]] = set()

    async def finish(self, call: Coroutine[Any, Any, Reply]) -> Reply:
        """The answer to a call, which goes on to its end also when this is cancelled."""
        task = asyncio.create_task(call)
        self._under_way.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    async def settle(self) -> None:
        """Wait for what is under way, for a while; what takes longer is cancelled."""
        if not self._under_way:
            return
        _, late = await asyncio.wait(self._under_way, timeout=LATE_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Reply]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waits hears of it; nobody may


async def ask_and_charge(
    coach: ChatClient | None,
    question: CoachQuestion,
    *,
    step: str,
    key: str,
    purse: BudgetLedger,
    keep: Callable[[str, Any], Any],
    kept: Callable[[], Awaitable[None]],
) -> Reply:
    """Ask, pay, and keep the answer under its key.

    Args:
        coach: Who is asked.
        question: What.
        step: The call's name, for its span.
        key: The journal's key of the answer.
        purse: What pays.
        keep: Adds an entry to the journal.
        kept: Waits until what was added is written.

    Raises:
        BudgetExhausted: The dollars or coach calls are spent; nobody was asked.
        CoachUnavailable: There is no coach, or it cannot be reached.
    """
    if coach is None:
        raise CoachUnavailable(
            "This algorithm asks a coach LLM, and none is configured.",
            hint='Name one under [coach] in ratchet.toml: model = "gpt-5-mini".',
        )
    reached = purse.refusal(coach_calls=1)
    if reached:
        raise BudgetExhausted(f"Another coach call would exceed the budget: {reached}.")
    purse.take_call(key)
    asking = STEP.set(step)
    try:
        reply = await coach.ask(
            question.messages,
            schema=question.schema,
            temperature=question.temperature,
            max_tokens=question.max_tokens,
            model=question.model,
        )
    except BaseException:
        purse.give_back_call(key)
        raise
    finally:
        STEP.reset(asking)
    # At once: it is written also when this is cancelled from here on.
    keep(key, msgspec.to_builtins(reply))
    purse.pay([reply.cost])
    await kept()  # nothing is done with an answer that a kill could make us pay for again
    return reply


def paid_before(kept: Any, key: str, purse: BudgetLedger) -> Reply:
    """An answer from the journal: it counts in this run, too, and is paid to nobody again."""
    reply = msgspec.convert(kept, Reply)
    if purse.fresh([key]):
        purse.take_call(key)
        purse.pay([reply.cost])
    return reply
