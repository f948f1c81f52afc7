"""The ledger of model calls: what a call may cost is reserved before it begins.

A call is admitted if the most that it can cost fits into what is left. Where only that bound does
not fit, it is admitted by what such calls have cost so far, and then at most `MAX_OVER` run at
once: so the limit is exceeded by no more than the calls under way.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import msgspec

from ratchet.llm.chat import ChatClient, Message, Reply
from ratchet.types import BudgetExhausted, Cost, dollars_text, total_cost

_ROUNDING = 1e-9
"""Rounding error of a sum of dollars."""

MAX_OVER = 4
"""Maximum number of calls under way whose bound exceeds what is left."""

ACCOUNT: ContextVar[Account | None] = ContextVar("account that pays for model calls", default=None)
"""The account that pays for the calls made in this context; None if nothing limits them."""


class _Reserved(msgspec.Struct, frozen=True):
    kind: str
    pieces: int
    most: float
    """Dollars that the work can cost; infinite if unknown."""


class Account:
    """Dollars for the work of a command, or for a part of it. Use it from a single event loop.

    Args:
        dollars: The limit; None for none.
        name: What the dollars are, for sentences: `The budget`.
        hint: What to do when they are spent.
        within: The account that this one is a part of; its limit holds, too.
        spent: What was spent before.
        record: Called with each reply that was paid for, and who asked.
    """

    def __init__(
        self,
        dollars: float | None = None,
        *,
        name: str = "The budget",
        hint: str | None = None,
        within: Account | None = None,
        spent: Cost | None = None,
        record: Callable[[str, Reply], None] | None = None,
    ) -> None:
        self.dollars = dollars
        self.name = name
        self.hint = hint
        self.within = within
        inherited = None if within is None else within.record
        self.record: Callable[[str, Reply], None] | None = record or inherited
        self._costs: list[Cost] = [] if spent is None else [spent]
        self._total: Cost | None = None
        self._reserved: dict[int, _Reserved] = {}
        self._numbers = itertools.count()
        self._largest: dict[str, float | None] = {} if within is None else within._largest
        """The highest cost of work of a kind so far; None if a price is unknown."""
        self._waiters: list[asyncio.Future[None]] = [] if within is None else within._waiters

    @property
    def cost(self) -> Cost:
        """What has been spent."""
        if self._total is None:
            # Rounded once, so that the order in which calls end does not matter.
            self._total = total_cost(self._costs)
        return self._total

    @property
    def left(self) -> float:
        """Dollars that are left, here and in the accounts above; infinite without a limit."""
        return min(
            (p.dollars - p.cost.known_usd for p in self.levels() if p.dollars is not None),
            default=math.inf,
        )

    def levels(self) -> Iterator[Account]:
        """This account and those above it."""
        account: Account | None = self
        while account is not None:
            yield account
            account = account.within

    def add(self, costs: Iterable[Cost]) -> None:
        """Add earlier spending to this account only."""
        self._costs.extend(costs)
        self._total = None

    async def admit(self, kind: str, count: int) -> int:
        """How many of this many pieces of work may begin now, at least 1.

        Their price is known only when they end. The first of a kind tell what one costs, so few of
        them begin at once.

        Args:
            kind: Kind of the work; what it has cost so far is remembered by kind.
            count: Number of pieces, at least 1.

        Raises:
            BudgetExhausted: What is left does not cover one.
        """
        while True:
            room, scarce = count, self
            for account in self.levels():
                available = account._room(kind, count)
                if available < room:
                    room, scarce = available, account
            if room > 0:
                return room
            if not scarce._reserved or scarce.cost.known_usd >= (scarce.dollars or 0.0):
                raise scarce.spent_error(self._largest.get(kind) or 0.0, kind)
            await self._settled()

    def _room(self, kind: str, count: int) -> int:
        if self.dollars is None:
            return count
        left = self.dollars - self.cost.known_usd
        left -= sum(map(self._expected, self._reserved.values()))
        largest = self._largest.get(kind, 0.0)
        if left <= 0:
            return 0
        if kind not in self._largest:
            return min(count, MAX_OVER)
        return min(count, int((left + _ROUNDING) / largest)) if largest else count

    async def _settled(self) -> None:
        settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(settled)
        await settled

    def reserve(self, kind: str, pieces: int) -> int:
        """Reserve the expected cost of this many pieces of work; returns the reservation."""
        return self._begin(_Reserved(kind, pieces, pieces * (self._largest.get(kind) or 0.0)))

    async def begin(self, kind: str, most: float | None) -> int:
        """Reserve the price of a call, once there is room for it; returns the reservation.

        Args:
            kind: Kind of the call, such as its model.
            most: The most that it can cost in dollars; None if its price is unknown.

        Raises:
            BudgetExhausted: What is left does not cover it.
        """
        while True:
            admitted = min((account._admits(kind, most) for account in self.levels()), default=1)
            if admitted > 0:
                return self._begin(self._reservation(kind, most))
            if admitted < 0:
                account = next(level for level in self.levels() if level._admits(kind, most) < 0)
                raise account.spent_error(self._largest.get(kind) or 0.0, "call")
            await self._settled()

    def end(self, reservation: int, kind: str, costs: Sequence[Cost] = ()) -> None:
        """Release a reservation, and pay the actual cost of the work.

        Args:
            reservation: What `begin` or `reserve` returned.
            kind: Kind of the work.
            costs: Cost of each piece; none if it failed.
        """
        for account in self.levels():
            account._reserved.pop(reservation, None)
        for cost in costs:
            before = self._largest.get(kind) or 0.0
            unknown = cost.unpriced and not cost.known_usd
            self._largest[kind] = None if unknown else max(before, cost.known_usd)
        for account in self.levels():
            account.add(costs)
        waiters = self._waiters[:]
        self._waiters.clear()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _begin(self, reserved: _Reserved) -> int:
        *_, root = self.levels()
        number = next(root._numbers)
        for account in self.levels():
            account._reserved[number] = reserved
        return number

    def _reservation(self, kind: str, most: float | None) -> _Reserved:
        largest = self._largest.get(kind, 0.0)
        if most is None:
            # A price that stays unknown reserves nothing; one that nobody has seen yet may be any.
            most = 0.0 if largest is None else math.inf
        return _Reserved(kind, 1, most)

    def _expected(self, reserved: _Reserved) -> float:
        """Highest cost of such work so far, in dollars; 0 if there was none."""
        return min(reserved.most, reserved.pieces * (self._largest.get(reserved.kind) or 0.0))

    def _admits(self, kind: str, most: float | None) -> int:
        """1 if a call may begin, 0 if it must wait for others to end, -1 if it may not begin."""
        if self.dollars is None:
            return 1
        left = self.dollars - self.cost.known_usd
        if left <= 0:
            return -1
        reservation, under_way = self._reservation(kind, most), self._reserved.values()
        if sum(pending.most for pending in under_way) + reservation.most <= left + _ROUNDING:
            return 1
        if len(under_way) >= MAX_OVER:
            return 0
        if sum(map(self._expected, under_way)) + self._expected(reservation) <= left + _ROUNDING:
            return 1
        return 0 if under_way else -1

    def spent_error(self, another: float = 0.0, kind: str = "call") -> BudgetExhausted:
        """The error that the budget is spent.

        Args:
            another: What another piece of work costs, which may be more than what is left.
            kind: Kind of that work.
        """
        assert self.dollars is not None
        spent = self.cost.known_usd
        over = spent - self.dollars
        if over > _ROUNDING:
            more = f", {dollars_text(over)} of it by calls that were under way"
        else:
            more = f", and another {kind} costs {dollars_text(another)}" if over < 0 else ""
        return BudgetExhausted(
            f"{self.name} of ${self.dollars:g} is spent: {dollars_text(spent)} so far{more}."
            " What was paid for is kept.",
            hint=self.hint,
        )


@contextmanager
def paid_from(account: Account | None) -> Iterator[None]:
    """Let an account pay for the model calls made in this context."""
    token = ACCOUNT.set(account)
    try:
        yield
    finally:
        ACCOUNT.reset(token)


async def ask_paid(
    client: ChatClient,
    messages: Sequence[Message],
    *,
    kind: str,
    schema: Mapping[str, Any] | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    model: str | None = None,
    own: Account | None = None,
) -> Reply:
    """Ask a model, paid from this context's account, which reserves the price first.

    Args:
        client: The client.
        messages: See `ChatClient.ask`, as those that are not named here.
        kind: Who asks, such as `coach`; with the model it tells calls of one price from others.
        schema: JSON schema of the answer.
        temperature: Sampling temperature.
        max_tokens: Maximum number of tokens of the answer.
        model: Name of the model.
        own: A account of the asker's own, whose limit holds, too.

    Raises:
        BudgetExhausted: What is left does not cover the call; none was made.
        CoachUnavailable: No model is usable.
    """
    accounts = [account for account in (own, ACCOUNT.get()) if account is not None]
    priced = f"{kind} {model or ''}".strip()
    bound = getattr(client, "most_usd", None) if accounts else None
    most = None if bound is None else bound(messages, max_tokens=max_tokens, model=model)
    begun: list[tuple[Account, int]] = []
    costs: list[Cost] = []
    try:
        for account in accounts:
            begun.append((account, await account.begin(priced, most)))
        reply = await client.ask(
            messages, schema=schema, temperature=temperature, max_tokens=max_tokens, model=model
        )
        costs.append(reply.cost)
    finally:
        for account, reservation in begun:
            account.end(reservation, priced, costs)
    for account in accounts:
        if account.record is not None:
            account.record(kind, reply)
    return reply
