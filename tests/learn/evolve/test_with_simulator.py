"""Evolve over the room-booking example and over HTTP, with the simulator as model and as coach."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ratchet.autopilot.project import Project
from ratchet.autopilot.project_evaluators import project_evaluators
from ratchet.autopilot.project_tasks import project_dataset
from ratchet.evaluate import Scorer
from ratchet.learn import Budget, Finding, Lab, LabSettings
from ratchet.learn.evolve import Evolve
from ratchet.llm import Coach
from ratchet.run import Runner
from ratchet.store import Store
from ratchet.types import PromptTemplate
from ratchet.worker.inprocess import AsyncExecutor
from tests.examples.room_booking import EXAMPLE
from tests.learn.conftest import MakeStore
from tests.simulator import Settings, SimulatorThread


@pytest.fixture(scope="module")
def simulator() -> Iterator[SimulatorThread]:
    with SimulatorThread(Settings(seed="5")) as running:
        yield running


@pytest.fixture
def project(tmp_path: Path, simulator: SimulatorThread, monkeypatch: pytest.MonkeyPatch) -> Project:
    folder = tmp_path / "room_booking"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(".ratchet", "__pycache__"))
    monkeypatch.setenv("OPENAI_BASE_URL", simulator.base_url(label="evolve"))
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("ROOM_BOOKING_MODEL", "simulated-task")
    return Project.find(folder)


def search(project: Project, store: Store, rollouts: int) -> Finding:
    agent = project.load_agent()
    dataset, _ = project_dataset(project)

    async def work() -> Finding:
        executor = AsyncExecutor(agent, slots=16, timeout_s=60)
        async with Coach("simulated-coach") as coach, Runner(store, "queue", executor) as runner:
            lab = Lab(
                LabSettings(
                    run_id="run", stage="learn", queue="queue", objective="right_room", seed=1,
                    max_attempts=1,
                ),
                baseline=project.source_candidate(agent),
                train=dataset.split("train"),
                val=dataset.split("val"),
                runner=runner,
                scorer=Scorer(store, project_evaluators(project)),
                store=store,
                budget=Budget(rollouts=rollouts),
                coach=coach,
            )  # fmt: skip
            return await Evolve().learn(lab)

    return asyncio.run(work())


@pytest.mark.long
def test_a_prompt_gets_better_and_a_resumed_run_calls_nobody(
    project: Project, simulator: SimulatorThread, make_store: MakeStore
) -> None:
    store = make_store()
    found = search(project, store, rollouts=120)
    assert found.best_val > found.baseline_val + 0.05
    best = next(r for r in found.best.resources.values() if isinstance(r, PromptTemplate))
    assert best.placeholders == {"office"}
    asked = simulator.counters("evolve", "simulated-coach")["calls"]
    ran = simulator.counters("evolve")["calls"]
    assert asked > 0
    assert search(project, store, rollouts=120) == found
    assert simulator.counters("evolve", "simulated-coach")["calls"] == asked
    assert simulator.counters("evolve")["calls"] == ran
