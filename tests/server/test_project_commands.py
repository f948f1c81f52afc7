"""What routes run of the project's own code: in a process beside the server, bounded in time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ratchet.server.http_problems import HttpProblem
from ratchet.server.project_commands import ProjectCommands
from ratchet.server.serve import ServeSettings
from ratchet.store import Store
from ratchet.types import Outcome, Rollout
from tests.serving import RunningServer

AGENT = """
import os

import ratchet
from ratchet.evaluate import Judgement


@ratchet.agent
def answer(number):
    return number


@ratchet.evaluator
def whose(output):
    print("a line of the evaluator's own")
    return Judgement(1.0, f"process {os.getpid()}")
"""
CONFIG = '[agent]\nentry = "agent:answer"\n\n[[evaluators]]\nuse = "agent:whose"\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with an evaluator of its own, which tells its process."""
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "ratchet.toml").write_text(CONFIG)
    (tmp_path / "tasks.jsonl").write_text('{"id": "t", "input": 1}\n')
    return tmp_path


def test_an_evaluator_of_the_project_runs_in_another_process_and_stores_nothing(
    serving: Callable[..., RunningServer], project: Path
) -> None:
    url = f"sqlite:///{project}/.ratchet/ratchet.db"
    (project / ".ratchet").mkdir()
    with Store.open(url) as store:
        ended = Rollout(id="r123", queue="q", candidate_id="", task_id="t", input=1)
        store.rollouts.create([ended], 1.0)
        (claimed,) = store.rollouts.claim("q", "w", 1, 60.0, 1.0)
        done = Outcome(
            rollout_id="r123",
            fence=claimed.fence,
            status="succeeded",
            started_at=1.0,
            ended_at=2.0,
            duration_s=1.0,
            output=1,
        )
        store.rollouts.finish([done], 2.0)
    server = serving(url, ServeSettings(port=0, project=str(project)))
    with server.client() as http:
        path, body = "/v1/evaluators/whose/trial", {"subject": "r123"}
        answer = http.post(path, json=body)
        assert answer.status_code == 200, answer.text
        tried: Any = answer.json()
        assert (tried["subject"], tried["score"]["value"]) == ("r123", 1.0)
        assert tried["score"]["rationale"].startswith("process ")
        assert tried["score"]["rationale"] != f"process {os.getpid()}"
        assert http.get("/v1/rollouts/r123/scores").json() == {"scores": []}
        told = http.post("/v1/evaluators/--help/trial", json=body)
        assert told.status_code == 422
        assert "There is no evaluator '--help'" in told.json()["detail"]


def test_without_a_project_the_command_is_named(server: RunningServer) -> None:
    with server.client() as http:
        told = http.post("/v1/evaluators/mine/trial", json={"subject": "r123"})
        assert told.status_code == 409
        assert "ratchet evaluators try mine r123" in told.json()["detail"]
        assert http.get("/v1/evaluators").status_code == 409


@pytest.mark.parametrize(
    ("arguments", "seconds", "status", "why"),
    [
        (["evaluators", "list", "--json"], 0.0, 504, "did not finish within 0 s"),
        (["--version"], 60.0, 422, "without an answer"),
    ],
)
def test_a_command_that_is_too_slow_or_gives_no_answer_is_a_sentence(
    project: Path, arguments: list[str], seconds: float, status: int, why: str
) -> None:
    commands = ProjectCommands(project, {})
    with pytest.raises(HttpProblem, match=why) as refused:
        asyncio.run(commands.run(arguments, msgspec.Raw, seconds=seconds))
    assert refused.value.status == status
