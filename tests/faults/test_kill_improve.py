"""`kill -9` of `ratchet improve` at random moments: the same end, and nothing executed twice."""

from __future__ import annotations

import functools
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import interpreters
from tests.repositories import committed

pytestmark = pytest.mark.xdist_group("kills")  # what they share is made once

LONG = bool(os.environ.get("RATCHET_LONG_FAULTS"))

KILLS, ROLLOUTS = (10, 1500) if LONG else (3, 700)

EXECUTORS = [
    "process",
    pytest.param(
        "async",
        marks=pytest.mark.skipif(not LONG, reason="a longer form: make faults"),
    ),
]

AGENT = '''
import os
import time

import ratchet

KNOBS = ratchet.params(
    "guess",
    low=ratchet.Float(0.0, 0.0, 1.0),
    shape=ratchet.Choice("flat", ["flat", "round"]),
    steps=ratchet.Int(1, 1, 9),
)


@ratchet.agent
def answer(number):
    """The better the knobs, the closer the answer; every call leaves a line in a file."""
    line = f"{number} {KNOBS.low!r} {KNOBS.shape} {KNOBS.steps}\\n"
    file = os.open(os.environ["CALLS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line.encode())
    os.close(file)
    time.sleep(0.002)  # long enough that a kill often meets a call under way
    error = abs(KNOBS.low - 0.7) + (KNOBS.shape == "flat") * 0.2 + abs(KNOBS.steps - 5) * 0.05
    return max(0.0, 1.0 - error)


@ratchet.evaluator
def closeness(output):
    return output
'''

CONFIG = """
[agent]
entry = "agent:answer"

[[evaluators]]
use = "agent:closeness"
vouched = true

[run]
executor = "{executor}"
concurrency = 2
timeout_s = 20

[improve.budget]
rollouts = {rollouts}

[[guardrails]]
metric = "latency"
off = true
"""


def make_project(folder: Path, executor: str) -> Path:
    agent = AGENT
    if executor == "async":
        agent = agent.replace("import os\n", "import asyncio\nimport os\n", 1)
        agent = agent.replace("def answer", "async def answer")
        agent = agent.replace("time.sleep(", "await asyncio.sleep(")
    folder.mkdir()
    (folder / "agent.py").write_text(agent)
    (folder / "ratchet.toml").write_text(CONFIG.format(executor=executor, rollouts=ROLLOUTS))
    tasks = [json.dumps({"id": f"t{n}", "input": n}) for n in range(300)]
    (folder / "tasks.jsonl").write_text("\n".join(tasks) + "\n")
    return committed(folder)


def start(project: Path, calls: Path) -> subprocess.Popen[str]:
    return interpreters.Interpreter(
        [sys.executable, "-m", "ratchet", "improve", "--json", "--seed", "7"],
        cwd=project,
        env={**os.environ, "CALLS": str(calls)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(process: subprocess.Popen[str]) -> dict[str, object]:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    found: dict[str, object] = json.loads(out.strip().splitlines()[-1])
    return found


Whole = tuple[dict[str, object], Counter[str]]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Whole]:
    """What a run without kills came to, and its calls, by executor; run when first asked for."""

    @functools.cache
    def run(executor: str) -> Whole:
        folder = tmp_path_factory.mktemp("whole")
        calls = folder / "calls"
        found = finish(start(make_project(folder / "project", executor), calls))
        return found, Counter(calls.read_text().splitlines())

    return run


@pytest.mark.parametrize("executor", EXECUTORS)
def test_kills_change_nothing_and_repeat_nothing(
    tmp_path: Path, uninterrupted: Callable[[str], Whole], executor: str
) -> None:
    whole, whole_calls = uninterrupted(executor)
    assert whole["branch"], whole
    project, calls = make_project(tmp_path / "project", executor), tmp_path / "calls"
    moments = random.Random(int(os.environ.get("RATCHET_TEST_SEED", "1")))
    total = sum(whole_calls.values())
    killed_at: list[int] = []
    for _ in range(KILLS):
        # Counted in calls from now, a moment falls into the work whatever the machine's pace.
        already = count(calls)
        wanted = already + moments.randint(1, max(2, (total - already) // (KILLS - KILLS // 3)))
        process = start(project, calls)
        deadline = time.monotonic() + 60
        while count(calls) < wanted and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)
        process.kill()
        process.communicate()
        killed_at.append(count(calls))
    found = finish(start(project, calls))
    made = Counter(calls.read_text().splitlines())
    assert [line for line, times in made.items() if times > whole_calls[line]] == []
    assert made == whole_calls
    for key in ("candidate_id", "run", "stage", "branch", "verdict", "pairs", "e_value"):
        assert found[key] == whole[key], (key, killed_at)


def count(calls: Path) -> int:
    return calls.read_bytes().count(b"\n") if calls.exists() else 0


@pytest.mark.long
def test_kills_while_shipping_end_in_one_branch_and_one_release(
    tmp_path: Path, uninterrupted: Callable[[str], Whole]
) -> None:
    whole, whole_calls = uninterrupted("process")
    project, calls = make_project(tmp_path / "project", "process"), tmp_path / "calls"
    for _ in range(4):
        process = start(project, calls)
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("Ship"):
                break
        process.kill()
        process.communicate()
    found = finish(start(project, calls))
    assert found["branch"] == whole["branch"]
    branches = subprocess.run(
        ["git", "branch", "--list", "ratchet/*"],
        cwd=project,
        capture_output=True,
        text=True,
        check=True,
    )
    assert branches.stdout.split() == [found["branch"]]
    listed = interpreters.run(
        [sys.executable, "-m", "ratchet", "releases", "--json"],
        cwd=project,
        check=True,
    )
    assert len(json.loads(listed.stdout)["releases"]) == 1
    assert Counter(calls.read_text().splitlines()) == whole_calls
