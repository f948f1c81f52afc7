"""`kill -9` in the pilot and between repetitions: the same end, and no repetition run twice."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.faults.test_kill_improve import count, finish, start
from tests.repositories import committed

AGENT = '''
import os
import random
import time

import ratchet
from ratchet.bind import current_seed

KNOBS = ratchet.params("guess", chance=ratchet.Choice("low", ["low", "middle", "high"]))

CHANCES = {"low": 0.25, "middle": 0.4, "high": 0.6}


@ratchet.agent
def answer(number):
    """Right by chance, and differently whenever it is asked; every call leaves a line in a file."""
    seed = current_seed()
    file = os.open(os.environ["CALLS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{number} {KNOBS.chance} {seed}\\n".encode())
    os.close(file)
    time.sleep(0.002)  # long enough that a kill often meets a call under way
    return float(random.Random(seed).random() < CHANCES[KNOBS.chance])


@ratchet.evaluator
def right(output):
    return output
'''

CONFIG = """
[agent]
entry = "agent:answer"

[[evaluators]]
use = "agent:right"
vouched = true

[run]
executor = "process"
concurrency = 2
timeout_s = 20

[improve]
algorithm = "tune"

[improve.budget]
rollouts = 400

[[guardrails]]
metric = "latency"
off = true
"""

TASKS = 120


def make_project(folder: Path) -> Path:
    folder.mkdir()
    (folder / "agent.py").write_text(AGENT)
    (folder / "ratchet.toml").write_text(CONFIG)
    tasks = [json.dumps({"id": f"t{n}", "input": n}) for n in range(TASKS)]
    (folder / "tasks.jsonl").write_text("\n".join(tasks) + "\n")
    return committed(folder)


@pytest.mark.xdist_group("kills")
@pytest.mark.long
def test_a_kill_between_repetitions_repeats_none_and_changes_nothing(tmp_path: Path) -> None:
    calls = tmp_path / "whole calls"
    whole = finish(start(make_project(tmp_path / "whole"), calls))
    made = Counter(calls.read_text().splitlines())
    assert whole["repetitions"] == 4, "400 rollouts over two sides of 48 test tasks"
    evidence = json.loads(Path(str(whole["evidence"])).read_text())
    proved = 2 * 4 * len(evidence["pairs"])
    project, calls = make_project(tmp_path / "project"), tmp_path / "calls"
    # In the pilot, which comes before the experiment, and at a third and two thirds of that.
    for wanted in (-proved - 5, -proved * 2 // 3, -proved // 3):
        process = start(project, calls)
        deadline = time.monotonic() + 60
        while count(calls) < made.total() + wanted and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        process.kill()
        process.communicate()
    found = finish(start(project, calls))
    assert Counter(calls.read_text().splitlines()) == made
    for key in ("candidate_id", "stage", "verdict", "pairs", "repetitions", "e_value"):
        assert found[key] == whole[key]
