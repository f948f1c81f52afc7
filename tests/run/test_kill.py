"""A runner's process is killed or interrupted: nothing is lost, run twice or left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from tests.waiting import alive, until

from ratchet.store import Store
from ratchet.types import Candidate, Rollout
from ratchet.worker.agent import AgentSpec

AGENT = """
    import os, subprocess, threading
    from pathlib import Path
    HERE = Path(__file__).parent

    def run(x):
        with open(HERE / "started", "a") as file:
            file.write(f"{x}\\n")
        if x == "leaves":
            subprocess.Popen(["sleep", "600"])
            threading.Thread(target=threading.Event().wait).start()
        if x == "fast":
            return os.getpid()
        with open(HERE / "gate", "rb", buffering=0) as gate:
            gate.read(1)
        return os.getpid()
"""

ASYNC_AGENT = (
    AGENT.replace("def run(x)", "def work(x)")
    + """
    import asyncio

    async def run(x):
        return await asyncio.to_thread(work, x)
"""
)

PARENT = """
import asyncio, json, sys
from pathlib import Path
import msgspec
from ratchet.run import FileLock, Runner, WorkerExecutor
from ratchet.worker.agent import AgentSpec
from ratchet.run.left_outcomes import store_left_outcomes
from ratchet.store import Store
from ratchet.types import Candidate, Rollout

given = json.loads(sys.argv[1])
state = Path(given["state"])

async def main(lock):
    agent = msgspec.convert(given["agent"], AgentSpec)
    candidate = msgspec.convert(given["candidate"], Candidate)
    rollouts = msgspec.convert(given["rollouts"], list[Rollout])
    with Store.open(given["url"]) as store:
        store.candidates.put(candidate)
        options = dict(store_url=given["url"], state=state, slots=2, timeout_s=60,
                       memory_bytes=2**31, keep_open=lock)
        executor = WorkerExecutor(agent, workers=given["loops"] or None, **options)
        async with Runner(store, "agent", executor) as runner:
            store_left_outcomes(store, state)
            runner.recover()
            print("ready", flush=True)
            await runner.run(rollouts, [candidate])
            print("done", flush=True)

lock = FileLock(state / "lock", "the test").acquire(wait=True)
try:
    asyncio.run(main(lock))
except KeyboardInterrupt:
    sys.exit(130)
"""

DEADLINE_S = 60.0


class Parent:
    """A process with a runner, and the agent's side of it."""

    def __init__(self, arguments: str, root: Path) -> None:
        self._arguments = arguments
        self.started_file = root / "started"
        os.mkfifo(root / "gate")
        # Read and write, so that neither end waits for the other to open.
        self.gate = os.open(root / "gate", os.O_RDWR)
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-c", PARENT, self._arguments],
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def started(self) -> list[str]:
        return self.started_file.read_text().split() if self.started_file.exists() else []

    def workers(self) -> list[psutil.Process]:
        return psutil.Process(self.processes[-1].pid).children(recursive=True)


@pytest.fixture
def parent(
    write_agent: Callable[..., AgentSpec],
    candidate: Candidate,
    sqlite_url: str,
    tmp_path: Path,
) -> Iterator[Callable[..., Parent]]:
    import msgspec

    made: list[Parent] = []

    def make(rollouts: list[Rollout], loops: int = 0) -> Parent:
        spec = write_agent(ASYNC_AGENT if loops else AGENT)
        arguments = {
            "agent": spec,
            "candidate": candidate,
            "rollouts": rollouts,
            "url": sqlite_url,
            "state": str(tmp_path / "state"),
            "loops": loops,
        }
        made.append(Parent(json.dumps(msgspec.to_builtins(arguments)), Path(spec.root)))
        return made[-1]

    yield make
    for one in made:
        os.close(one.gate)
        for process in one.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.mark.parametrize(
    "loops",
    [pytest.param(0, id="processes", marks=pytest.mark.long), pytest.param(1, id="a loop")],
)
def test_after_kill_9_what_the_workers_ran_is_stored_and_nothing_runs_twice(
    parent: Callable[..., Parent],
    rollouts: Callable[..., list[Rollout]],
    lite: Store,
    loops: int,
) -> None:
    names = ["fast", "leaves", "slow", "later", "last"]
    here = parent(rollouts(*names), loops)
    first = here.start()
    until(lambda: {"leaves", "slow"} <= set(here.started()), "both workers are busy")
    workers = here.workers()
    assert len(workers) == (loops or 2) + 1, "the workers and what one agent left running"
    first.kill()
    first.wait()
    second = here.start()  # at once: it waits for the lock that the workers hold
    assert all(alive(worker.pid) for worker in workers)
    os.write(here.gate, b"xx")
    until(lambda: not any(alive(worker.pid) for worker in workers), "the workers end by themselves")
    until(
        lambda: {r.status for r in lite.rollouts.get(["r1", "r2"]).values()} == {"succeeded"},
        "the second parent stores what the workers left",
    )
    stored = lite.rollouts.get(["r1", "r2"])
    assert {r.output for r in stored.values()} <= {worker.pid for worker in workers}
    os.write(here.gate, b"xx")
    said, _ = second.communicate(timeout=DEADLINE_S)
    assert said.split() == [b"ready", b"done"]
    assert Counter(here.started()) == Counter(names)
    assert lite.rollouts.counts() == {"succeeded": 5}
    assert {r.failures for r in lite.rollouts.get([f"r{n}" for n in range(5)]).values()} == {0}


@pytest.mark.parametrize("moment", ["starting", "busy"])
def test_ctrl_c_ends_cleanly_and_leaves_no_process(
    parent: Callable[..., Parent],
    rollouts: Callable[..., list[Rollout]],
    lite: Store,
    moment: str,
) -> None:
    here = parent(rollouts("fast", "slow", "leaves", "later"))
    process = here.start()
    if moment == "busy":
        until(lambda: {"leaves", "slow"} <= set(here.started()), "both workers are busy")
    else:
        until(lambda: len(here.workers()) > 0, "a worker is being started")
    workers = here.workers()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    until(lambda: not any(alive(worker.pid) for worker in workers), "no worker is left")
    counts = lite.rollouts.counts()
    assert "running" not in counts
    if moment == "busy":
        assert counts == {"queued": 3, "succeeded": 1}
        assert {r.failures for r in lite.rollouts.get(["r1", "r2", "r3"]).values()} == {0}
