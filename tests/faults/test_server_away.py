"""The server is killed under load and comes back: no span is lost, and the agent notices nothing.

The agent is a process of its own. It calls a traced function at a steady pace and writes down how
long each call took; afterwards the database is asked for each of its spans.
"""

from __future__ import annotations

import json
import os
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.free_ports import free_port

from ratchet._http import httpx2

LONG = bool(os.environ.get("RATCHET_LONG_FAULTS"))
BEFORE_S = 5.0 if LONG else 1.0
AWAY_S = 30.0 if LONG else 2.5
AFTER_S = 5.0 if LONG else 1.0
PACE_S = 0.002

AGENT = """
import json, sys, time
import ratchet

url, seconds, end = sys.argv[1], float(sys.argv[2]), sys.argv[3]
pace, tag = float(sys.argv[4]), sys.argv[5]
handle = ratchet.init("steady", url=url, instrument=False)

@ratchet.tool
def look_up(call):
    return {"call": call, "text": "a room is free on Friday at nine " * 10}

@ratchet.agent
def answer(call):
    return look_up(call)

answer(f"{tag} -1")
print("ready", flush=True)
took, begun, number = [], time.monotonic(), 0
while time.monotonic() - begun < seconds:
    at = time.perf_counter()
    answer(f"{tag} {number}")
    took.append((time.monotonic() - begun, time.perf_counter() - at))
    number += 1
    time.sleep(pace)
if end == "flush":
    deadline = time.monotonic() + 60
    while not handle.flush(10) and time.monotonic() < deadline:
        time.sleep(0.05)
at = time.monotonic()
handle.shutdown()
status = handle.status()
print(json.dumps({
    "calls": number + 1, "took": took, "ended_in": time.monotonic() - at,
    "sent": status.sent, "dropped": status.dropped, "waiting": status.waiting,
}))
"""


class Server:
    """`ratchet serve` in a process of its own, on the same port each time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.database = folder / "server.db"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with open(self._folder / "server.log", "ab") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "ratchet", "serve"),
                    *("--port", str(self._port), "--store", f"sqlite:///{self.database}"),
                ],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(self._folder),
            )
        deadline = time.monotonic() + 60
        while True:
            try:
                if httpx2.get(f"{self.url}/readyz", timeout=5).status_code == 200:
                    return
            except httpx2.TransportError:
                pass
            assert self._process.poll() is None, (self._folder / "server.log").read_text()
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill it without a word."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def spans(self) -> list[tuple[str, str]]:
        """Name and call of each span in its database, in the order they were stored."""
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as opened:
            rows = opened.execute("SELECT name, attributes FROM spans ORDER BY seq").fetchall()
        found = [
            (name, json.loads(a.get("ratchet.input") or a["gen_ai.tool.call.arguments"])["call"])
            for name, a in ((row[0], json.loads(row[1])) for row in rows)
        ]
        assert len(found) == len(set(found)), "a span is stored twice"
        return found


def environment(folder: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("RATCHET_")}
    return {**kept, "XDG_CACHE_HOME": str(folder / "cache")}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server that was started."""
    made = Server(tmp_path)
    made.start()
    yield made
    made.kill()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts agents, and waits until they work."""
    (tmp_path / "agent.py").write_text(AGENT)
    started: list[subprocess.Popen[str]] = []

    def start(url: str, seconds: float, end: str, tag: str = "first") -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "agent.py", url, str(seconds), end, str(PACE_S), tag],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(tmp_path),
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def report(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert process.wait(60) == 0
    found: dict[str, Any] = json.loads(line)
    return found


def expected(calls: int, tag: str = "first") -> set[tuple[str, str]]:
    names = [f"{tag} {number}" for number in range(-1, calls - 1)]
    return {(name, call) for call in names for name in ("answer", "look_up")}


@pytest.mark.long
def test_a_server_that_is_killed_and_comes_back_costs_no_span_and_no_time(
    server: Server, agent: Callable[..., subprocess.Popen[str]]
) -> None:
    process = agent(server.url, BEFORE_S + AWAY_S + AFTER_S, "flush")
    begun = time.monotonic()
    time.sleep(BEFORE_S)
    server.kill()
    killed = time.monotonic() - begun
    time.sleep(AWAY_S)
    back = time.monotonic() - begun
    server.start()
    found = report(process)
    assert (found["dropped"], found["waiting"]) == (0, 0)
    assert set(server.spans()) == expected(found["calls"]), "not one is missing"
    while_there = [took for at, took in found["took"] if at < killed - 0.1]
    while_away = [took for at, took in found["took"] if killed < at < back]
    assert len(while_away) > 100
    usual, away = statistics.median(while_there), statistics.median(while_away)
    assert away < 2 * usual + 100e-6, f"{usual * 1e6:.0f} µs, and {away * 1e6:.0f} µs while away"
    # Other processes of the machine may hold one up; a call that waited for a server took longer.
    assert sorted(while_away)[int(0.99 * len(while_away))] < 0.1
    assert max(while_away) < 1.0


def test_what_a_process_could_not_send_the_next_one_does(
    server: Server, agent: Callable[..., subprocess.Popen[str]]
) -> None:
    server.kill()
    first = report(agent(server.url, 0.5, "exit"))
    assert first["ended_in"] < 5.5
    assert first["waiting"] == 2 * first["calls"]
    server.start()
    second = report(agent(server.url, 0.2, "flush", "second"))
    assert second["waiting"] == 0
    both = expected(first["calls"]) | expected(second["calls"], "second")
    assert set(server.spans()) == both


def test_spans_that_wait_on_disk_survive_a_kill(
    server: Server, agent: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    server.kill()
    process = agent(server.url, 60, "exit")
    deadline = time.monotonic() + 30
    while sum(path.stat().st_size for path in tmp_path.rglob("*.spool")) < 100_000:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.kill()
    process.wait()
    kept = sum(path.stat().st_size for path in tmp_path.rglob("*.spool"))
    assert kept >= 100_000
    server.start()
    report(agent(server.url, 0.1, "flush", "second"))
    numbers = [
        int(call.removeprefix("first "))
        for name, call in server.spans()
        if name == "answer" and call.startswith("first ")
    ]
    assert len(numbers) > 50
    assert numbers == list(range(-1, len(numbers) - 1)), "in order, without a gap"
    assert not list(tmp_path.rglob("*.spool"))
