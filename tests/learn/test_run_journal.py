"""The journal of a run: written in the background, in order, before anything is paid for."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from typing import Any

import pytest

from ratchet.learn import Lab, Proposal
from ratchet.learn.run_journal import RunJournal
from ratchet.store import Store
from ratchet.types import Conflict, InputError, StoreError
from tests.learn.conftest import FakeRunner, MakeStore, make_lab
from tests.learn.test_lab_coach import ASKED, BASELINE, StandIn

PROPOSAL = Proposal(number=0, candidate_id="c", value=0.5, tasks=1, best=0.5, rollouts=1)


@contextmanager
def locked(store: Store) -> Iterator[sqlite3.Connection]:
    """Another connection holds the write lock of a SQLite store."""
    with closing(sqlite3.connect(store._database.location, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other
        if other.in_transaction:
            other.execute("ROLLBACK")


@asynccontextmanager
async def ticking() -> AsyncIterator[list[int]]:
    """Counts the turns of the event loop, as a heartbeat would."""
    ticks: list[int] = []

    async def tick() -> None:
        while True:
            ticks.append(len(ticks))
            await asyncio.sleep(0)

    beating = asyncio.create_task(tick())
    yield ticks
    beating.cancel()


async def turns(ticks: list[int], number: int = 50) -> None:
    """Wait until the loop has turned so often."""
    until = len(ticks) + number
    while len(ticks) < until:
        await asyncio.sleep(0)


def lab_on(store: Store, coach: Any) -> Lab:
    return make_lab(FakeRunner(store, lambda *_: 0.5), store, BASELINE, coach=coach)


def keys(store: Store) -> list[str]:
    return [key.split("/")[0] for key, _ in store.journal.read("run0")]


def test_the_loop_turns_while_another_process_keeps_the_store_locked(
    make_store: MakeStore,
) -> None:
    store, coach = make_store(), StandIn()
    lab = lab_on(store, coach)

    async def work() -> None:
        async with lab, ticking() as ticks:
            with locked(store):
                lab.note("It begins.")
                assert lab.may_continue("one")
                lab.coach.unusable("two", "No.")
                lab.judged(PROPOSAL)
                assert lab.compared("three", BASELINE, BASELINE) == []
                asked = asyncio.create_task(lab.coach.ask(ASKED, step="a"))
                tried = asyncio.create_task(lab.evaluate(BASELINE, lab.val))
                await turns(ticks)
                assert not asked.done()
                assert not tried.done()
            await asyncio.gather(asked, tried)
            await turns(ticks)

    asyncio.run(work())
    assert keys(store) == ["note", "budget", "unusable", "proposal", "compared", "coach"]


def test_nothing_is_paid_for_before_what_led_to_it_is_journaled(make_store: MakeStore) -> None:
    store, coach = make_store(), StandIn()
    lab = lab_on(store, coach)

    async def work() -> None:
        async with lab, ticking() as ticks:
            with locked(store) as other:
                assert lab.may_continue("one")
                asked = asyncio.create_task(lab.coach.ask(ASKED, step="a"))
                await turns(ticks)
                assert coach.calls == 0
                other.execute("ROLLBACK")
            await asked

    asyncio.run(work())
    assert keys(store) == ["budget", "coach"]


def test_an_answer_is_journaled_before_it_is_used(make_store: MakeStore) -> None:
    store = make_store()

    class Locking(StandIn):
        """While it answers, another process takes the lock."""

        async def ask(self, *arguments: Any, **options: Any) -> Any:
            other.execute("BEGIN IMMEDIATE")
            return await super().ask(*arguments, **options)

    coach = Locking()
    lab = lab_on(store, coach)

    async def work() -> None:
        async with lab, ticking() as ticks:
            asked = asyncio.create_task(lab.coach.ask(ASKED, step="a"))
            while not coach.calls:
                await asyncio.sleep(0)
            await turns(ticks)
            assert not asked.done()
            other.execute("ROLLBACK")
            assert (await asked).text == "answer 1"
            assert keys(store) == ["coach"]

    with closing(sqlite3.connect(store._database.location, isolation_level=None)) as other:
        asyncio.run(work())


def test_entries_made_while_others_are_written_follow_them_in_order(
    make_store: MakeStore,
) -> None:
    store = make_store()

    async def work() -> None:
        journal = RunJournal(store.journal, "run")
        await journal.load()
        for number in range(300):
            journal.append(f"{number:03d}", number)
            if number % 7 == 0:
                await asyncio.sleep(0)
        await journal.flush()

    asyncio.run(work())
    assert [body for _, body in store.journal.read("run")] == list(range(300))


def test_entries_are_written_when_the_loop_ends_without_a_flush(make_store: MakeStore) -> None:
    store = make_store()

    async def work() -> None:
        RunJournal(store.journal, "run").append("k", 1)

    asyncio.run(work())
    assert store.journal.read("run") == [("k", 1)]


def test_what_has_no_json_form_is_refused_where_it_is_added(make_store: MakeStore) -> None:
    with pytest.raises(InputError, match="cannot be stored as JSON"):
        RunJournal(make_store().journal, "run").append("k", object())


def test_an_entry_that_cannot_be_written_ends_the_work(make_store: MakeStore) -> None:
    store = make_store()

    async def work() -> None:
        journal = RunJournal(store.journal, "run")
        await journal.load()
        store.close()
        journal.append("k", 1)
        for _ in range(2):
            with pytest.raises(StoreError, match="is closed"):
                await journal.flush()
        with pytest.raises(StoreError, match="is closed"):
            journal.append("another", 1)

    asyncio.run(work())


def test_a_second_process_in_the_same_run_is_told(make_store: MakeStore) -> None:
    store = make_store()

    async def work() -> None:
        one, other = (RunJournal(store.journal, "run") for _ in range(2))
        for journal in (one, other):
            await journal.load()
        one.append("same", 1)
        one.append("differs", 1)
        await one.flush()
        other.append("same", 1)
        await other.flush()
        other.append("differs", 2)
        with pytest.raises(
            Conflict, match=r"Another process is writing to the run run.*same command"
        ):
            await other.flush()

    asyncio.run(work())
    assert store.journal.read("run") == [("same", 1), ("differs", 1)]
