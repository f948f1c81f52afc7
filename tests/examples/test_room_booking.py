"""The room-booking example, with the simulator in the place of its model and its coach."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.examples.room_booking import EXAMPLE, PROMPT, judge, rooms_on, tasks
from tests.simulator import Settings, SimulatorThread
from tests.simulator.reading import RULES, read
from tests.simulator.writing import STATEMENTS


@pytest.fixture(scope="module")
def simulator() -> Iterator[SimulatorThread]:
    """The models."""
    with SimulatorThread(Settings(seed="1")) as running:
        yield running


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the example with a coach that is a simulator."""
    folder = tmp_path / "room_booking"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(".ratchet", "__pycache__"))
    config = folder / "ratchet.toml"
    config.write_text(config.read_text().replace("gpt-6-luna", "simulated-coach"))
    return folder


def run(command: list[str], folder: Path, base_url: str) -> subprocess.CompletedProcess[str]:
    """A command of the example, whose model is the simulator."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("RATCHET_", "OPENAI_"))}
    environ |= {"OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": "none", "NO_COLOR": "1"}
    environ |= {"ROOM_BOOKING_MODEL": "simulated-task"}
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_tasks_are_what_a_second_solver_says() -> None:
    ended = run(["check_tasks.py"], EXAMPLE, "")
    assert (ended.returncode, ended.stdout) == (0, "240 tasks, 0 of them wrong\n")


def test_a_wrong_task_is_named(project: Path) -> None:
    lines = (project / "tasks.jsonl").read_text().splitlines()
    task = json.loads(lines[1])
    lines[1] = json.dumps(task | {"expected": "none"})
    (project / "tasks.jsonl").write_text("\n".join(lines) + "\n")
    ended = run(["check_tasks.py"], project, "")
    assert ended.returncode == 1
    assert f"{task['id']}: none is expected, {task['expected']} is right" in ended.stdout


def _others(task: dict[str, Any]) -> dict[str, str]:
    """By rule, a room that breaks just that one for a task."""
    from room_booking.house_rules import Request, broken_rules

    request = Request(**task["request"])
    found: dict[str, str] = {}
    for room in rooms_on(request.date):
        broken = list(broken_rules(request, room))
        if len(broken) == 1:
            found.setdefault(broken[0], room["id"])
        if not broken and room["id"] != task["expected"]:
            found.setdefault("best", room["id"])
    return found


WORDS = {
    "capacity": "too small",
    "equipment": "it has no",
    "accessible": "not accessible",
    "distance": "too far",
    "booked": "already booked",
    "buffer": "less than 10 minutes",
    "best": "would do, but",
}


@pytest.mark.parametrize("rule", WORDS)
def test_a_room_that_breaks_a_rule_gets_part_of_the_credit_and_the_reason(rule: str) -> None:
    task = next(task for task in tasks() if rule in _others(task) and task["expected"] != "none")
    value, rationale = judge(_others(task)[rule], task["expected"], task)
    assert 0 < value < 1
    assert WORDS[rule] in rationale
    assert task["expected"] in rationale


def test_it_answers_on_the_command_line(project: Path, simulator: SimulatorThread) -> None:
    request = tasks()[1]["input"]["request"]
    ended = run(["-m", "room_booking", request], project, simulator.base_url(label="cli"))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip()
    counted = simulator.counters("cli")
    assert (counted["calls"], counted["conversations"]) == (2, 1)


@pytest.mark.long
def test_ratchet_evaluates_it_and_a_better_prompt(
    project: Path, simulator: SimulatorThread
) -> None:
    def mean(label: str) -> float:
        ended = run(["-m", "ratchet", "eval", "--json"], project, simulator.base_url(label=label))
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return _mean(json.loads(ended.stdout))

    poor = mean("poor")
    assert simulator.counters("poor")["conversations"] > 30
    agent = project / "room_booking" / "agent.py"
    rules = " ".join(STATEMENTS[rule][0] for rule in RULES)
    agent.write_text(agent.read_text().replace(PROMPT, f"{PROMPT} {rules}"))
    assert 0.35 < poor < 0.65
    assert mean("good") >= 0.9


@pytest.mark.long
def test_a_prompt_is_improved_proved_and_shipped(project: Path, simulator: SimulatorThread) -> None:
    config = project / "ratchet.toml"
    config.write_text(config.read_text().replace("rollouts = 600", "rollouts = 160"))
    for command in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "the agent"]):
        git(project, *command)
    ended = run(["-m", "ratchet", "improve"], project, simulator.base_url(label="improve"))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    branch = next(name for name in git(project, "branch", "--list").split() if "/" in name)
    change = git(project, "diff", f"main..{branch}", "--stat")
    assert "room_booking/agent.py" in change
    assert "1 file changed" in change
    shipped = git(project, "show", f"{branch}:room_booking/agent.py")
    assert len(read(shipped).stated) > len(read(PROMPT).stated) + 2
    learning = simulator.counters("improve", "simulated-coach")
    assert learning["calls"] > 4


def git(folder: Path, *command: str) -> str:
    """What a git command says."""
    identity = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.com")
    return subprocess.run(
        ["git", *identity, *command], cwd=folder, capture_output=True, text=True, check=True
    ).stdout


def _mean(found: Any) -> float:
    """The mean of the evaluator, wherever the report has it."""
    if isinstance(found, dict):
        if found.get("evaluator") == "right_room" and "mean" in found:
            return float(found["mean"])
        found = list(found.values())
    if isinstance(found, list):
        for inner in found:
            if (value := _mean(inner)) >= 0:
                return value
    return -1.0
