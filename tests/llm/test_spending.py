"""The account: no call begins that what is left does not cover, nor more than four by guess."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from ratchet.llm import Account, Message, Reply, ask_paid, paid_from
from ratchet.types import BudgetExhausted, Cost

ASKED = [Message("user", "What?")]


class Priced:
    """A client whose calls cost what they are said to, or what nobody knows before."""

    def __init__(self, costs: Sequence[float | None], *, bound: float | None = None) -> None:
        self.costs = list(costs)
        self.bound = bound
        self.calls = 0
        self.at_once = 0
        self.most_at_once = 0

    def most_usd(self, *_: Any, **__: Any) -> float | None:
        """The bound of every call."""
        return self.bound

    async def ask(self, messages: Sequence[Message], **_: Any) -> Reply:
        """Answer after others have had their turn."""
        cost = self.costs[self.calls]
        self.calls += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        for _ in range(5):
            await asyncio.sleep(0)
        self.at_once -= 1
        return Reply(text="So.", model="m", cost_usd=cost)

    def credit(self, model: str, survived: bool) -> None:
        """Nothing to credit."""


def ask_all(client: Priced, account: Account, number: int) -> list[Any]:
    """So many calls at once."""

    async def work() -> list[Any]:
        with paid_from(account):
            calls = [ask_paid(client, ASKED, kind="judge j") for _ in range(number)]
            return await asyncio.gather(*calls, return_exceptions=True)

    return asyncio.run(work())


@pytest.mark.parametrize("bound", [None, 40.0])
def test_calls_of_unknown_price_run_four_at_once_and_end_at_the_limit(
    bound: float | None,
) -> None:
    client, account = Priced([1.0] * 99, bound=bound), Account(5.0)
    ended = ask_all(client, account, 99)
    assert (client.calls, client.most_at_once, account.cost.known_usd) == (5, 4, 5.0)
    refused = [each for each in ended if isinstance(each, BudgetExhausted)]
    assert len(refused) == 94
    assert "of $5 is spent: $5.00 so far" in str(refused[0])


def test_what_calls_under_way_spend_beyond_the_limit_is_said() -> None:
    account = Account(5.0)
    account.add([Cost(known_usd=6.0)])
    said = str(account.spent_error())
    assert "of $5 is spent: $6.00 so far, $1.00 of it by calls that were under way." in said


@pytest.mark.parametrize("seed", range(20))
def test_no_prices_exceed_the_limit_by_more_than_four_calls(seed: int) -> None:
    rng = random.Random(seed)
    costs = [rng.expovariate(1.0) for _ in range(200)]
    part = Account(rng.uniform(1, 9), within=Account(rng.uniform(1, 9)))
    client = Priced(costs, bound=rng.choice([None, 3.0, 100.0]))
    ask_all(client, part, 200)
    for account in part.levels():
        assert account.dollars is not None
        over = sum(sorted(costs[: client.calls])[-4:])
        assert account.cost.known_usd <= account.dollars + over
        assert account.cost.known_usd == pytest.approx(sum(costs[: client.calls]))


def test_a_failed_call_gives_its_reservation_back() -> None:
    class Broken(Priced):
        async def ask(self, messages: Sequence[Message], **options: Any) -> Reply:
            await super().ask(messages)
            raise RuntimeError("The line is cut.")

    client, account = Broken([1.0] * 9, bound=5.0), Account(5.0)
    ended = ask_all(client, account, 9)
    assert all(isinstance(each, RuntimeError) for each in ended)
    assert (account.cost, account.left) == (Cost(), 5.0)
