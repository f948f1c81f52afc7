"""Judges on live traffic are paid out of the day's dollars, whichever process asks them."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from tests.llm.test_spending import ASKED, Priced

from ratchet.autopilot.cycle.day_account import DayAccount
from ratchet.autopilot.cycle_sections import AutopilotSection
from ratchet.llm import ask_paid, paid_from
from ratchet.store import Store
from ratchet.types import BudgetExhausted

DAY_S = 86_400.0


def test_judges_on_live_traffic_stop_at_the_days_dollars(store: Store) -> None:
    client, now = Priced([1.0] * 99), [10 * DAY_S]
    policy = AutopilotSection(dollars_per_day=3.0)

    def judged(day: DayAccount, times: int) -> int:
        """Calls made of so many asked for, one after the other."""
        before = client.calls

        async def work() -> None:
            with paid_from(day.account()):
                for _ in range(times):
                    await ask_paid(client, ASKED, kind="judge helpful")

        with contextlib.suppress(BudgetExhausted):
            asyncio.run(work())
        return client.calls - before

    first = DayAccount(store, "helper", policy, lambda: now[0])
    assert judged(first, 2) == 2
    assert store.cycles.spent("helper", "1970-01-11").dollars == 2.0
    restarted = DayAccount(store, "helper", policy, lambda: now[0])
    assert judged(restarted, 5) == 1
    assert judged(first, 5) == 0
    with pytest.raises(BudgetExhausted, match=r"Today's budget \(dollars_per_day\) of \$3"):
        asyncio.run(first.account().begin("judge helpful", None))
    assert store.cycles.spent("helper", "1970-01-11").dollars == 3.0
    now[0] += DAY_S
    assert judged(first, 9) == 3
    assert store.cycles.spent("helper", "1970-01-12").dollars == pytest.approx(3.0)
