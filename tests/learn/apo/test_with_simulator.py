"""APO and FewShot over the room-booking example, with the simulator as model and as coach."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ratchet.autopilot.project import Project
from ratchet.autopilot.project_evaluators import project_evaluators
from ratchet.autopilot.project_tasks import project_dataset
from ratchet.evaluate import Scorer
from ratchet.learn import Algorithm, Budget, Finding, Lab, LabSettings
from ratchet.learn.apo import APO
from ratchet.learn.few_shot import FewShot
from ratchet.llm import Coach
from ratchet.run import Runner
from ratchet.store import Store
from ratchet.types import PromptTemplate
from ratchet.worker.inprocess import AsyncExecutor
from tests.examples.room_booking import EXAMPLE
from tests.simulator import Settings, SimulatorThread
from tests.simulator.reading import read


@pytest.fixture(scope="module")
def simulator() -> Iterator[SimulatorThread]:
    with SimulatorThread(Settings(seed="5")) as running:
        yield running


@pytest.fixture
def project(tmp_path: Path, simulator: SimulatorThread, monkeypatch: pytest.MonkeyPatch) -> Project:
    folder = tmp_path / "room_booking"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(".ratchet", "__pycache__"))
    monkeypatch.setenv("OPENAI_BASE_URL", simulator.base_url(label=tmp_path.name))
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("ROOM_BOOKING_MODEL", "simulated-task")
    return Project.find(folder)


class Learned(msgspec.Struct):
    finding: Finding
    spent: Any
    lab: Any


def learn(project: Project, store: Store, algorithm: Algorithm, rollouts: int) -> Learned:
    """A whole search, over HTTP."""
    agent = project.load_agent()
    dataset, _ = project_dataset(project)
    baseline = project.source_candidate(agent)

    async def search() -> Learned:
        executor = AsyncExecutor(agent, slots=16, timeout_s=60)
        async with (
            Coach("simulated-coach") as coach,
            Runner(store, "queue", executor) as runner,
        ):
            lab = Lab(
                LabSettings(
                    run_id="run", stage="learn", queue="queue", objective="right_room", seed=1,
                    max_attempts=1,
                ),
                baseline=baseline,
                train=dataset.split("train"),
                val=dataset.split("val"),
                runner=runner,
                scorer=Scorer(store, project_evaluators(project)),
                store=store,
                budget=Budget(rollouts=rollouts),
                coach=coach,
                clock=time.monotonic,
            )  # fmt: skip
            finding = await algorithm.learn(lab)
            return Learned(finding, lab.spent, lab)

    return asyncio.run(search())


def stated(finding: Finding) -> set[str]:
    template = finding.best.resources["system"]
    assert isinstance(template, PromptTemplate)
    return set(read(template.text).stated)


@pytest.mark.long
def test_apo_learns_rules_that_only_failures_show_and_pays_for_nothing_twice(
    project: Project, simulator: SimulatorThread, tmp_path: Path
) -> None:
    store = project.open_store()
    learned = learn(project, store, APO(), rollouts=110)
    assert learned.finding.best_val > learned.finding.baseline_val + 0.1
    assert len(stated(learned.finding)) >= 4
    assert learned.spent.rollouts <= 110
    assert learned.finding.best.resources["system"].placeholders == {"office"}  # type: ignore[union-attr]
    asked = simulator.counters(tmp_path.name, "simulated-coach")["calls"]
    assert asked == learned.spent.coach_calls
    calls = simulator.counters(tmp_path.name)["calls"]
    again = learn(project, store, APO(), rollouts=110)
    assert again.finding == learned.finding
    assert simulator.counters(tmp_path.name)["calls"] == calls
    assert simulator.counters(tmp_path.name, "simulated-coach")["calls"] == asked
    store.close()


def test_few_shot_runs_over_the_example_without_a_coach(
    project: Project, simulator: SimulatorThread, tmp_path: Path
) -> None:
    store = project.open_store()
    learned = learn(project, store, FewShot(sets=3), rollouts=90)
    assert learned.finding.best_val >= learned.finding.baseline_val - 0.1
    assert learned.spent.rollouts <= 90
    assert not simulator.counters(tmp_path.name, "simulated-coach")
    store.close()
