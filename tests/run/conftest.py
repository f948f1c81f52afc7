"""Fixtures of the room: agents in files, a store, rollouts to run, executors that end."""

from __future__ import annotations

import textwrap
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ratchet import bind
from ratchet.run import WorkerExecutor
from ratchet.store import Store
from ratchet.types import Candidate, Claim, Int, Params, Rollout
from ratchet.worker.agent import AgentSpec

QUEUE = "agent"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """What a test declares is gone after it."""
    bind.forget()
    yield
    bind.forget()


@pytest.fixture
def write_agent(tmp_path: Path) -> Callable[..., AgentSpec]:
    """Write an agent of that source, with a function `run`, into a module of its own."""

    def write(source: str, function: str = "run") -> AgentSpec:
        name = f"agent_{uuid.uuid4().hex[:12]}"
        root = tmp_path / "project"
        root.mkdir(exist_ok=True)
        (root / f"{name}.py").write_text(textwrap.dedent(source))
        return AgentSpec(entry=f"{name}:{function}", root=str(root))

    return write


@pytest.fixture
def lite(sqlite_url: str) -> Iterator[Store]:
    """An empty store in a SQLite file."""
    with Store.open(sqlite_url) as opened:
        yield opened


@pytest.fixture
def candidate() -> Candidate:
    return Candidate.of({"knobs": Params({"k": Int(5, 1, 20)}, {"k": 9})})


@pytest.fixture
def rollouts(candidate: Candidate) -> Callable[..., list[Rollout]]:
    """Rollouts with these inputs."""

    def make(*inputs: Any, **fields: Any) -> list[Rollout]:
        return [
            Rollout(
                **{
                    "id": f"r{number}",
                    "queue": QUEUE,
                    "candidate_id": candidate.id,
                    "task_id": f"t{number}",
                    "input": given,
                    "seed": 1000 + number,
                    "max_attempts": 1,
                    **fields,
                }
            )
            for number, given in enumerate(inputs)
        ]

    return make


@pytest.fixture
def claims(rollouts: Callable[..., list[Rollout]]) -> Callable[..., list[Claim]]:
    """Claims of rollouts with these inputs, for an executor without a queue."""

    def make(*inputs: Any, **fields: Any) -> list[Claim]:
        return [Claim(rollout, 1, 1e12) for rollout in rollouts(*inputs, **fields)]

    return make


@pytest.fixture
def pool(sqlite_url: str, tmp_path: Path) -> Callable[..., WorkerExecutor]:
    """A process executor for an agent, two slots unless said otherwise."""

    def make(agent: AgentSpec, **fields: Any) -> WorkerExecutor:
        given = {"slots": 2, "timeout_s": 30.0, "memory_bytes": 2**31, **fields}
        return WorkerExecutor(agent, store_url=sqlite_url, state=tmp_path / "state", **given)

    return make
