"""`kill -9` of the server, of runners and of `ratchet improve --server`: the same end as without.

What an uninterrupted run on one machine came to is what a fleet comes to, whoever was killed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests import interpreters
from tests.free_ports import free_port
from tests.repositories import committed

from ratchet.store import Store

pytestmark = pytest.mark.xdist_group("kills")

LONG = bool(os.environ.get("RATCHET_LONG_FAULTS"))
KILLS, ROLLOUTS = (24, 1500) if LONG else (4, 500)
LEASE_S = 3
PATIENCE_S = 300.0

AGENT = '''
import asyncio

import ratchet

KNOBS = ratchet.params(
    "guess",
    low=ratchet.Float(0.0, 0.0, 1.0),
    shape=ratchet.Choice("flat", ["flat", "round"]),
)


@ratchet.agent
async def answer(number):
    """The better the knobs, the closer the answer."""
    await asyncio.sleep(0.01)
    error = abs(KNOBS.low - 0.7) + (KNOBS.shape == "flat") * 0.2
    return max(0.0, 1.0 - error)


@ratchet.evaluator
def closeness(output):
    return output
'''

CONFIG = f"""
[agent]
entry = "agent:answer"

[[evaluators]]
use = "agent:closeness"
vouched = true

[run]
executor = "inline"
concurrency = 4
server_concurrency = 4

[improve]
algorithm = "tune"

[improve.budget]
rollouts = {ROLLOUTS}

[[guardrails]]
metric = "latency"
off = true
"""


def make_project(folder: Path) -> Path:
    folder.mkdir()
    (folder / "agent.py").write_text(AGENT)
    (folder / "ratchet.toml").write_text(CONFIG)
    tasks = [json.dumps({"id": f"t{n}", "input": n}) for n in range(240)]
    (folder / "tasks.jsonl").write_text("\n".join(tasks) + "\n")
    return committed(folder)


class Machine:
    """A `ratchet` process that is started again after each kill.

    Args:
        arguments: Of the command.
        folder: Where it runs.
        log: File for what it prints.
    """

    def __init__(self, arguments: list[str], folder: Path, log: Path) -> None:
        self._arguments = arguments
        self._folder = folder
        self.log = log
        self.process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        with open(self.log, "ab") as log:
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
        self.process.kill()
        self.process.wait()
        self.process = self._start()

    def end(self) -> None:
        """End it in order."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


@contextmanager
def machine(arguments: list[str], folder: Path, log: Path) -> Iterator[Machine]:
    made = Machine(arguments, folder, log)
    try:
        yield made
    finally:
        made.end()


def last_line(log: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(log.read_text().strip().splitlines()[-1])
    return found


@pytest.mark.parametrize("seed", range(1, 4) if LONG else [1])
@pytest.mark.long
def test_kills_of_anybody_change_nothing(tmp_path: Path, seed: int) -> None:
    alone = make_project(tmp_path / "alone")
    whole = interpreters.run(
        [sys.executable, "-m", "ratchet", "improve", "--json"], cwd=alone, check=True
    )
    expected = json.loads(whole.stdout.splitlines()[-1])
    assert expected["branch"]

    project = make_project(tmp_path / "project")
    port, store = free_port(), f"sqlite:///{tmp_path}/server.db"
    url = f"http://127.0.0.1:{port}"
    serve = ["serve", "--port", str(port), "--store", store]
    runner = ["runner", "--server", url, "--lease", str(LEASE_S)]
    luck = random.Random(seed)
    with ExitStack() as stack:
        server = stack.enter_context(machine(serve, tmp_path, tmp_path / "server.log"))
        runners = [
            stack.enter_context(machine(runner, alone, tmp_path / f"{name}.log"))
            for name in ("first", "second")
        ]
        improve = Machine(["improve", "--json", "--server", url], project, tmp_path / "improve.log")
        # Everybody is killed at least once; who is next is drawn.
        victims = [improve, server, *runners] * (KILLS // 4)
        luck.shuffle(victims)
        deadline = time.monotonic() + PATIENCE_S
        killed = 0
        for number, victim in enumerate(victims, 1):
            # Counted in rollouts, a moment falls into the work whatever the machine's pace.
            wanted = number * expected["rollouts"] // (KILLS + 1)
            while ended_at(store) < wanted and improve.process.poll() is None:
                assert time.monotonic() < deadline, improve.log.read_text()
                time.sleep(0.01)
            if improve.process.poll() is not None:
                break
            victim.kill()
            killed += 1
        assert killed == KILLS, improve.log.read_text()
        assert improve.process.wait(PATIENCE_S) == 0, improve.log.read_text()
    found = last_line(improve.log)
    for key in ("run", "candidate_id", "stage", "verdict", "pairs", "e_value", "branch"):
        assert found[key] == expected[key], key
    check(store)


def ended_at(store: str) -> int:
    """Number of rollouts that have ended at the server, whether it runs or not."""
    if not Path(store.removeprefix("sqlite:///")).exists():
        return 0
    with Store.open(store) as opened:
        return opened.rollouts.counts().get("succeeded", 0)


def check(store: str) -> None:
    """Each rollout ended once at the server, and none was failed for a kill."""
    with Store.open(store) as opened:
        counts = opened.rollouts.counts()
        assert set(counts) == {"succeeded"}, counts
        statuses: Counter[str] = Counter()
        cursor: str | None = None
        while True:
            page, cursor = opened.rollouts.list(limit=500, cursor=cursor)
            for rollout in page:
                attempts = [one.status for one in opened.rollouts.attempts(rollout.id)]
                assert attempts.count("succeeded") == 1, attempts
                statuses.update(attempts)
            if cursor is None:
                break
        assert not {"failed", "crashed", "timed_out"} & set(statuses), statuses
