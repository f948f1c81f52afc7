"""Starts of live calls: what is left of a call that hangs, or whose process is killed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ratchet
from ratchet.autopilot.live_outcomes import LiveOutcomes
from ratchet.bind import forget
from ratchet.observe.call_starts import ENROLLED_S, MAX_CALLS_UNDER_WAY, CallStarts
from ratchet.observe.destination import meeting_place, spool_folder
from ratchet.observe.spool import Spool, waits
from ratchet.store import Store
from ratchet.store.local_agents import open_with_agents
from ratchet.types import (
    Activation,
    Candidate,
    LiveOutcome,
    PromptTemplate,
    TrafficSplit,
    unit_digest,
)
from ratchet.types.trace import CALL_START, EXPERIMENT
from tests.observe.conftest import Start

SOURCE = Candidate.of({"system": PromptTemplate("source")})
ONE = SOURCE.derive({"system": PromptTemplate("one")}, algorithm="test")
TWO = SOURCE.derive({"system": PromptTemplate("two")}, algorithm="test")

KILLED = """
import os, signal, sys, time
import ratchet
from ratchet.observe import call_starts

call_starts.ENROLLED_S = 3600.0  # it is killed before its start is sent, however slow the machine
ratchet.init("bot", instrument=False)
system = ratchet.prompt("system", "source")
while str(system) != "one":
    time.sleep(0.01)

@ratchet.agent
def answer(question):
    print(str(system), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

with ratchet.conversation(sys.argv[1]):
    answer("?")
"""


@pytest.fixture
def canary(store: Store, store_url: str, project: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store in which all units are in a canary of the agent `bot`."""
    monkeypatch.setenv("RATCHET_URL", store_url)
    for candidate in (SOURCE, ONE, TWO):
        store.candidates.put(candidate)
    store.agents.activate(Activation(agent="bot", candidate_id=ONE.id, activated_at=time.time()))
    store.traffic.put(
        TrafficSplit(agent="bot", experiment_id="e", candidate_id=TWO.id, enrolled=1.0)
    )
    open_with_agents(store_url).close()
    return store


def killed(unit: str) -> str:
    """Run an agent that is killed within its call; the prompt that the call had."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, unit], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == -9, done.stderr
    return done.stdout.strip()


def outcomes(store: Store) -> list[LiveOutcome]:
    """What a canary reads once it waits for no call any longer."""
    reader = LiveOutcomes(store, "bot", None, wait_s=60.0)
    page = asyncio.run(reader.read(None, since=0.0, now=time.time() + 1_000.0, experiment_id="e"))
    return list(page.outcomes)


def test_a_call_whose_process_is_killed_at_once_is_a_failure_of_its_arm(
    canary: Store, store_url: str, project: Path
) -> None:
    units = [f"talk {number}" for number in range(2)]
    prompts = [killed(units[0])]
    assert outcomes(canary) == [], "nothing has taken it in"
    prompts += [killed(unit) for unit in units[1:]]
    for _ in range(2):
        open_with_agents(store_url).close()
    found = outcomes(canary)
    assert [one.unit for one in found] == [unit_digest(unit) for unit in units]
    arms = {"one": ("baseline", ONE.id), "two": ("candidate", TWO.id)}
    assert [(one.arm, one.candidate_id) for one in found] == [arms[each] for each in prompts]
    assert {(one.error, one.score, one.latency_s) for one in found} == {(True, 0.0, 600.0)}
    assert outcomes(canary) == found


def test_the_agent_s_next_process_sends_what_a_killed_one_left_to_a_server(
    canary: Store,
    store_url: str,
    serving: Callable[..., ratchet.server.RunningServer],
    monkeypatch: pytest.MonkeyPatch,
    start: Start,
) -> None:
    server = serving(store_url)
    monkeypatch.setenv("RATCHET_URL", server.url)
    killed("talk")
    assert outcomes(canary) == []
    start("bot").flush(60)
    assert [(one.unit, one.error) for one in outcomes(canary)] == [(unit_digest("talk"), True)]


def test_a_call_that_hangs_is_seen_while_it_does_and_counts_once_when_it_ends(
    canary: Store, project: Path, store_url: str, start: Start
) -> None:
    forget()  # what other tests of this process declared
    handle = start("bot")
    system = ratchet.prompt("system", "source")
    until = time.monotonic() + 60
    while str(system) != "one" and time.monotonic() < until:
        time.sleep(0.01)
    goes_on = threading.Event()

    @ratchet.agent
    def answer(question: str) -> str:
        goes_on.wait(60)
        return str(system)

    def talk() -> None:
        with ratchet.conversation("talk"):
            answer("?")

    thread = threading.Thread(target=talk)
    thread.start()
    with open_with_agents(store_url):  # as an autopilot has it
        while not outcomes(canary) and time.monotonic() < until:
            time.sleep(0.05)
    (hung,) = outcomes(canary)
    assert (hung.unit, hung.error, hung.reason) == (
        unit_digest("talk"),
        True,
        "it did not end within 600 s",
    )
    goes_on.set()
    thread.join()
    handle.flush(60)
    open_with_agents(store_url).close()
    (ended,) = outcomes(canary)
    assert (ended.trace_id, ended.arm, ended.error) == (hung.trace_id, hung.arm, False)
    handle.shutdown(60)
    open_with_agents(store_url).close()
    place = meeting_place(store_url)
    assert not waits(spool_folder(place.folder, "bot", place.address)), "nothing is left"


class Call:
    """A live call of a test."""

    over = False


class Began:
    """What a start reads of a call's span."""

    trace_id, start_ns = 1, 3

    def __init__(self, span_id: int, **attributes: str) -> None:
        self.span_id = span_id
        self.attributes = attributes


@pytest.fixture
def starts(tmp_path: Path) -> Iterator[CallStarts]:
    made = CallStarts(Spool(tmp_path / "spool"))
    yield made
    made.close()


def test_only_starts_of_calls_that_have_not_ended_soon_are_sent(starts: CallStarts) -> None:
    short, long = Call(), Call()
    assert starts.begin(Began(1, **{EXPERIMENT: "e"}), short, "bot", 0.0)
    assert not starts.begin(Began(2, **{EXPERIMENT: "e"}), long, "bot", 0.1)
    assert starts.due_s(0.1) == pytest.approx(ENROLLED_S - 0.1)
    short.over = True
    assert starts.due(ENROLLED_S) == {}
    due = starts.due(1.0)
    (record,) = due.values()
    assert (record.span.name, record.span.parent_id, record.agent) == (
        CALL_START,
        f"{2:016x}",
        "bot",
    )
    assert starts.due(1.0) == due, "until it is handed over"
    starts.sent(due)
    assert (starts.due(2.0), starts.due_s(9.0)) == ({}, None)


def test_the_file_of_starts_does_not_grow_with_the_calls(
    starts: CallStarts, tmp_path: Path
) -> None:
    hangs = Call()
    starts.begin(Began(-1, **{EXPERIMENT: "hangs"}), hangs, "bot", 0.0)
    for number in range(5_000):
        call = Call()
        starts.begin(Began(number, **{EXPERIMENT: "e"}), call, "bot", float(number))
        call.over = True
        if number % 100 == 0:
            starts.due(0.0)
    files = list((tmp_path / "spool").iterdir())
    assert sum(os.path.getsize(each) for each in files) < 600_000
    starts.close()
    left = Spool(tmp_path / "spool")
    frames = []
    while (frame := left.first()) is not None:
        frames.append(frame.data)
        left.done()
    assert sum(b'"hangs"' in data for data in frames) == 1


def test_the_number_of_starts_is_bounded(starts: CallStarts) -> None:
    for number in range(MAX_CALLS_UNDER_WAY + 5):
        starts.begin(Began(number), Call(), "bot", 0.0)
    assert len(starts.due(1_000.0)) == MAX_CALLS_UNDER_WAY
