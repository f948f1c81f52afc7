"""Evolved code in the sandbox reaches the agent's local model, and nothing else."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.local_models import GROUP

from ratchet.autopilot import Project
from ratchet.autopilot.agent_model import agent_model
from ratchet.autopilot.runner import make_executor
from ratchet.models import LocalModel
from ratchet.types import Candidate, Claim, Code, Outcome, Resource, Rollout

pytestmark = pytest.mark.xdist_group(GROUP)

AGENT = """
import ratchet

@ratchet.evolve
def answer(word: str) -> object:
    return word

@ratchet.agent
def run(word):
    return answer(word)
"""

CONFIG = """
[agent]
entry = "contained_agent:run"
model = "local"

[[evaluators]]
use = "exact_match"

[run]
executor = "inline"
"""

EVOLVED = """def answer(word: str) -> object:
    import json, os, urllib.request
    body = {"messages": [{"role": "user", "content": word}], "max_tokens": 2}
    headers = {
        "content-type": "application/json",
        "authorization": "Bearer " + os.environ["OPENAI_API_KEY"],
    }
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)["model"]
"""


def test_it_is_reached_without_being_named_under_sandbox(
    tmp_path: Path, local_model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "contained_agent.py").write_text(AGENT)
    (tmp_path / "ratchet.toml").write_text(CONFIG)
    (tmp_path / "tasks.jsonl").write_text('{"input": "joy", "expected": "joy"}\n')
    monkeypatch.chdir(tmp_path)
    resources: dict[str, Resource] = {"answer": Code(EVOLVED, "answer")}
    rollout = Rollout(
        id="r0",
        queue="q",
        candidate_id=Candidate.of(resources).id,
        task_id="t0",
        input="joy",
    )
    project = Project.find(tmp_path)

    async def run() -> Outcome:
        executor = make_executor(project, project.load_agent(), project.prepare_state(), None)
        await executor.start()
        try:
            return await executor.execute(Claim(rollout, 1, 1e12), resources)
        finally:
            await executor.close()

    before = project.conditions()
    with agent_model(project, lambda _: None):
        outcome = asyncio.run(run())
        assert project.conditions() == before
    assert (outcome.status, outcome.output, outcome.error) == ("succeeded", "local/smollm2", "")
