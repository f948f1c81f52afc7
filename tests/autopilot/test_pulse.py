"""What is awaited for long is told: on the terminal, and to whoever looks into the store."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import pytest
from rich.console import Console
from tests.llm.endpoint import HANG, Endpoint, Reaction

from ratchet._waiting import WAITS, LongWait, Waits
from ratchet.autopilot.explaining_runs import at_work
from ratchet.autopilot.pulse import Pulse, pulse
from ratchet.autopilot.watcher import Watcher
from ratchet.cli.progress import TerminalWatcher
from ratchet.llm import Coach, CoachSettings, Message
from ratchet.store import Store


class Clock:
    """Seconds that a test sets."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of this process's waits."""
    made = Clock(1_000.0)
    monkeypatch.setattr(WAITS, "_clock", made)
    monkeypatch.setattr(WAITS, "_came", {})
    return made


def test_a_coach_that_hangs_is_told_of_while_it_does(store: Store, clock: Clock) -> None:
    printed = io.StringIO()
    teller = Pulse(store, "run1", TerminalWatcher(Console(file=printed, width=120)))

    async def work() -> None:
        settings = CoachSettings(timeout_s=60, total_s=60, retries=0)
        async with Coach("m", base_url=endpoint.url, key_env="", settings=settings) as coach:
            call = asyncio.create_task(coach.ask([Message("user", "Hello?")]))
            while not endpoint.requests:
                await asyncio.sleep(0.01)
            for waited in (5, 12, 13, 25, 95):
                clock.now = 1_000.0 + waited
                teller.beat(clock.now)
            assert at_work(
                store.activity.waits("run1", clock.now), clock.now, "ratchet improve"
            ) == ("A process is at work on it, waiting for the coach, 95 s.")
            call.cancel()
            await asyncio.wait({call})
        teller.beat(clock.now)

    with Endpoint(lambda _: Reaction(how=HANG)) as endpoint:
        asyncio.run(work())
    # Not before ten seconds, and then each time twice as late.
    lines = [line.strip() for line in printed.getvalue().splitlines()]
    assert lines == [f"waiting for the coach, {seconds} s" for seconds in (12, 25, 95)]
    assert store.activity.waits("run1", clock.now) == []


def test_who_says_nothing_any_more_is_not_at_work(store: Store) -> None:
    Pulse(store, "run1", Watcher(), Waits(Clock(0.0))).beat(1_000.0)
    assert store.activity.waits("run1", 1_029.0) == []
    assert store.activity.waits("run1", 1_031.0) is None
    assert "No process is at work" in at_work(None, 0.0, "ratchet improve")
    with pulse(store, "run2", Watcher()):
        pass
    assert store.activity.waits("run2", 0.0) is None


def test_something_that_comes_begins_the_wait_anew() -> None:
    clock = Clock(0.0)
    waits = Waits(clock)
    with waits.on("4 rollouts"), waits.on("the judge"), waits.on("the judge"):
        clock.now = 11.0
        waits.came("4 rollouts")
        clock.now = 15.0
        assert waits.long() == [LongWait(what="the judge", since=0.0)]
        clock.now = 30.0
        assert [wait.what for wait in waits.long()] == ["the judge", "4 rollouts"]
    assert waits.long() == []


def test_the_terminal_shows_a_wait_under_its_bar() -> None:
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    watcher = TerminalWatcher(console)
    watcher.waits([LongWait(what="the coach", since=5.0)], 100.0)
    with console.capture() as shown:
        view: Any = watcher._view()
        console.print(view)
    assert "waiting for the coach, 95 s" in shown.get()
