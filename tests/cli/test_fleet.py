"""`ratchet improve --server` and its runners, as processes: who runs what, and what is said."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from ratchet.store import Store
from tests import interpreters
from tests.cli.conftest import AGENT, CONFIG, INLINE, MakeProject, Project
from tests.serving import RunningServer

QUICK = CONFIG.replace("max_trials = 12", "max_trials = 3") + INLINE

CODE_AGENT = '''
import ratchet


@ratchet.evolve
def weigh(number: int) -> float:
    """How much a number counts."""
    return 0.25


@ratchet.agent
def answer(number):
    return weigh(number)


@ratchet.evaluator
def closeness(output):
    return max(0.0, min(1.0, output))
'''

WRONG_CLOCK = """
import runpy, sys, time
real = time.time
time.time = lambda: real() + {ahead}
sys.argv = ["ratchet", *{arguments!r}]
runpy.run_module("ratchet", run_name="__main__")
"""


class Printed:
    """What a process prints on standard error, line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._new: SimpleQueue[str] = SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._new.put(line)

    def until(self, words: str) -> str:
        """The first line with these words."""
        while not any(words in line for line in self.lines):
            self.lines.append(self._new.get(timeout=60))
        return next(line for line in self.lines if words in line)


class Machines:
    """Runners in checkouts of a project, at one server."""

    def __init__(self, server: RunningServer) -> None:
        self.server = server
        self._started: list[subprocess.Popen[str]] = []

    def checkout(self, project: Project, name: str) -> Path:
        folder = project.root.with_name(name)
        ignore = shutil.ignore_patterns(".git", ".ratchet", "__pycache__")
        shutil.copytree(project.root, folder, ignore=ignore)
        return folder

    def runner(self, folder: Path, *options: str, ahead_s: float = 0.0) -> Printed:
        arguments = ["runner", "--server", self.server.url, *options]
        way = ["-m", "ratchet", *arguments]
        if ahead_s:
            way = ["-c", WRONG_CLOCK.format(ahead=ahead_s, arguments=arguments)]
        process = interpreters.Interpreter(
            [sys.executable, *way],
            cwd=folder,
            env=dict(os.environ),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        self._started.append(process)
        return Printed(process)

    def improve(self, project: Project, *options: str) -> Printed:
        improve = ["improve", "--json", "--server", self.server.url, *options]
        process = interpreters.Interpreter(
            [sys.executable, "-m", "ratchet", *improve],
            cwd=project.root,
            env={**os.environ, "COLUMNS": "400"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._started.append(process)
        return Printed(process)

    def end(self) -> None:
        for process in self._started:
            process.terminate()
        for process in self._started:
            process.wait(30)
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()

    @property
    def store(self) -> Store:
        store: Store = self.server.app.services.store
        return store


def result(printed: Printed) -> dict[str, Any]:
    process = printed.process
    assert process.stdout is not None
    line = process.stdout.readline()
    assert process.wait(60) == 0, printed.lines
    found: dict[str, Any] = json.loads(line)
    return found


@pytest.fixture
def machines(server: RunningServer) -> Iterator[Machines]:
    made = Machines(server)
    yield made
    made.end()


@pytest.mark.long
def test_a_runner_of_another_source_is_named_and_the_right_one_gets_its_rollouts(
    machines: Machines, make_project: MakeProject
) -> None:
    project = make_project(config=QUICK)
    old = machines.checkout(project, "old")
    right = machines.checkout(project, "right")
    (old / "agent.py").write_text(AGENT.replace("0.6", "0.5"))
    outdated = machines.runner(old)
    outdated.until("It has version")
    improving = machines.improve(project)
    sentence = improving.until("1 runner at")
    assert "holds another version of agent:answer: version " in sentence
    assert "Wanted: version " in sentence
    refused = outdated.until("leaves them to others")
    assert refused.startswith("Rollouts of agent:answer wait for version ")
    machines.runner(right)
    found = result(improving)
    assert found["stage"] in ("shipped", "no_gain")
    workers = {
        attempt.worker
        for rollout in machines.store.rollouts.list()[0]
        for attempt in machines.store.rollouts.attempts(rollout.id)
    }
    assert len(workers) == 1, "the one of the right source ran them all"
    assert set(machines.store.rollouts.counts()) == {"succeeded"}
    assert sum("leaves them to others" in line for line in outdated.lines) == 1


@pytest.mark.parametrize("ahead_s", [-3600.0, 3600.0])
@pytest.mark.long
def test_a_runner_whose_clock_is_an_hour_off_does_no_harm(
    machines: Machines, make_project: MakeProject, ahead_s: float
) -> None:
    project = make_project(config=QUICK, tasks=240)
    machines.runner(machines.checkout(project, "wrong"), ahead_s=ahead_s)
    machines.runner(machines.checkout(project, "right"))
    found = result(machines.improve(project))
    alone = make_project(name="alone", config=QUICK).json("improve")
    for key in ("run", "candidate_id", "verdict", "pairs", "e_value"):
        assert found[key] == alone[key], key
    attempts = [
        attempt
        for rollout in machines.store.rollouts.list(limit=1000)[0]
        for attempt in machines.store.rollouts.attempts(rollout.id)
    ]
    assert {attempt.status for attempt in attempts} == {"succeeded"}, "no lease ran out"


@pytest.mark.long
def test_code_of_candidates_runs_in_the_sandbox_of_a_runner_that_has_one(
    machines: Machines, make_project: MakeProject
) -> None:
    config = QUICK.replace('algorithm = "tune"', 'algorithm = "evolve"')
    config = config.replace("max_trials = 3", "").replace("[improve.options]", "")
    config += "[improve.budget]\nrollouts = 120\n"
    project = make_project(agent=CODE_AGENT, config=config)
    without = machines.checkout(project, "without")
    (without / "ratchet.toml").write_text(config + '[sandbox]\nlevel = "none"\n')
    unable = machines.runner(without)
    assert "It cannot run candidates with code: The level 'none'" in unable.until("It has version")
    improving = machines.improve(project)
    sentence = improving.until("sandbox")
    assert "which candidates with code need (1 runner without one)" in sentence
    unable.until("Candidates with code are left to other runners.")
    machines.runner(machines.checkout(project, "with"))
    found = result(improving)
    assert found["candidate"] > found["baseline"], "code was found, so it ran"
    rollouts = machines.store.rollouts.list(limit=1000)[0]
    places = {rollout.queue.split("/")[2] for rollout in rollouts}
    assert places == {"plain", "sandbox"}


def test_a_runner_without_the_agents_packages_says_which_and_takes_nothing(
    machines: Machines, make_project: MakeProject
) -> None:
    project = make_project(config=QUICK)
    without = machines.checkout(project, "without")
    (without / "agent.py").write_text("import not_installed_here\n" + AGENT)
    printed = machines.runner(without)
    assert printed.process.wait(60) == 3
    printed.until("No module named 'not_installed_here'")
    assert machines.store.rollouts.counts() == {}


def test_a_server_that_is_not_an_address_is_refused_before_anything_is_spent(
    make_project: MakeProject,
) -> None:
    project = make_project(config=QUICK)
    done = project.ratchet("improve", "--server", "not an address")
    assert done.returncode == 2
    assert "Write it as http://HOST:PORT" in done.stderr
    assert not (project.root / ".ratchet" / "evidence").exists()
