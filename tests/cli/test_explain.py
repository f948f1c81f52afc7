"""What is said of a run without a decision: while it is under way, and after no gain."""

from __future__ import annotations

import re
import time

from ratchet._waiting import LongWait
from ratchet.autopilot import Project as Opened
from ratchet.types import Run
from tests.cli.conftest import CONFIG, INLINE, MakeProject

FLAT = """
import ratchet

KNOBS = ratchet.params("knobs", aim=ratchet.Float(0.0, 0.0, 1.0))


@ratchet.agent
def answer(number):
    return 0.5


@ratchet.evaluator
def closeness(output):
    return output
"""


def test_no_gain_is_explained(make_project: MakeProject) -> None:
    project = make_project(
        agent=FLAT, config=CONFIG.replace("max_trials = 12", "max_trials = 3") + INLINE, tasks=120
    )
    run = project.json("improve")
    assert run["stage"] == "no_gain"
    for identity in ((), (str(run["run"])[:8],)):
        done = project.ratchet("explain", *identity)
        said = " ".join(done.stdout.split())
        assert done.returncode == 0, done.stderr
        assert said.startswith(f"Run {str(run['run'])[:8]}")
        assert "no candidate is likely to beat the baseline, which scores 0.500 on" in said
        assert re.search(r"\d candidates were judged on train tasks", said)
        assert "What could change it: a coach under [coach]" in said


def test_a_run_under_way_says_so_and_what_it_waits_for(make_project: MakeProject) -> None:
    project = make_project()
    now = time.time()
    run = Run(
        id="ab" * 16, agent="agent:answer", seed=0, stage="learn", created_at=now, updated_at=now
    )
    with Opened.find(project.root).open_store() as store:
        store.runs.put(run)
        said = project.ratchet("status").stdout
        assert "No process is at work on it; ratchet improve continues it." in said
        store.activity.put(run.id, [LongWait(what="the coach", since=now - 95)], now)
        said = project.ratchet("status").stdout
        waiting = r"A process is at work on it, waiting for the coach, \d\d+ s\."
        assert re.search(waiting, said)
        assert "next: nothing: it is running" in said
        assert re.search(waiting, project.ratchet("explain").stdout.replace("\n", " "))
        told = project.json("status")
    assert told["under_way"] is True
    assert isinstance(told["waits"], list)
    assert told["waits"][0]["what"] == "the coach"
