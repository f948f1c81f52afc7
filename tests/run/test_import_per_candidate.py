"""Candidates whose prompts are read when the agent is imported."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ratchet.run import AgentSpec, WorkerExecutor, load_agent
from ratchet.run.choice import executor_for
from ratchet.types import Candidate, Claim, InputError, Outcome, PromptTemplate, Rollout, Task

AGENT = """\
import os
import ratchet

RULE = str(ratchet.prompt("rule", "as it was"))

def agent(question):
    if question == "crash":
        os._exit(3)
    return [RULE, os.getpid()]
"""


@pytest.fixture
def spec(tmp_path: Path) -> AgentSpec:
    (tmp_path / "imported_agent.py").write_text(AGENT)
    return AgentSpec(entry="imported_agent:agent", root=str(tmp_path), import_per_candidate=True)


def _executor(spec: AgentSpec, state: Path, slots: int = 1) -> WorkerExecutor:
    return WorkerExecutor(
        spec,
        store_url=f"sqlite:///{state / 'orphans.db'}",
        state=state,
        slots=slots,
        timeout_s=30,
        memory_bytes=4 * 1024**3,
    )


def _candidate(text: str) -> Candidate:
    return Candidate.of({"rule": PromptTemplate(text)}, reason="test")


async def _run(executor: WorkerExecutor, candidate: Candidate, question: str = "x") -> Outcome:
    rollout = Rollout.of(
        Task(f"task-{question}", question),
        candidate.id,
        scope=[time.monotonic_ns()],
        seed_parts=[0],
        queue="q",
        purpose="learn",
        max_attempts=1,
    )
    claim = Claim(rollout, 1, 1e12)
    return await executor.execute(claim, candidate.resources)


def test_each_candidate_gets_its_own_text_and_its_worker_is_used_again(
    spec: AgentSpec, tmp_path: Path
) -> None:
    async def work() -> list[Any]:
        executor = _executor(spec, tmp_path / "state")
        await executor.start()
        try:
            first, second = _candidate("first"), _candidate("second")
            return [(await _run(executor, one)).output for one in (first, second, first, second)]
        finally:
            await executor.close()

    outputs = asyncio.run(work())
    assert [text for text, _ in outputs] == ["first", "second", "first", "second"]
    assert outputs[0][1] == outputs[2][1] != outputs[1][1] == outputs[3][1]


def test_more_candidates_than_workers_take_turns(spec: AgentSpec, tmp_path: Path) -> None:
    async def work() -> list[str]:
        executor = _executor(spec, tmp_path / "state")
        await executor.start()
        try:
            names = [f"text {number}" for number in range(4)]
            return [(await _run(executor, _candidate(name))).output[0] for name in names * 2]
        finally:
            await executor.close()

    assert asyncio.run(work()) == [f"text {number}" for number in range(4)] * 2


def test_a_worker_that_dies_is_replaced_by_one_with_the_same_text(
    spec: AgentSpec, tmp_path: Path
) -> None:
    async def work() -> tuple[str, Any]:
        executor = _executor(spec, tmp_path / "state")
        await executor.start()
        try:
            candidate = _candidate("mine")
            crashed = await _run(executor, candidate, "crash")
            return crashed.status, (await _run(executor, candidate)).output
        finally:
            await executor.close()

    status, output = asyncio.run(work())
    assert status == "crashed"
    assert output[0] == "mine"


@pytest.mark.parametrize("kind", ["inline", "ray"])
def test_an_executor_that_cannot_import_again_is_refused(
    spec: AgentSpec, tmp_path: Path, kind: str
) -> None:
    agent = load_agent(msgspec.structs.replace(spec, import_per_candidate=False))
    with pytest.raises(InputError, match=f'executor = "{kind}" cannot import the agent'):
        executor_for(
            kind,  # type: ignore[arg-type]
            agent,
            spec,
            state=tmp_path,
            store_url="sqlite://",
            concurrency=1,
            timeout_s=1,
            memory_mb=None,
        )
