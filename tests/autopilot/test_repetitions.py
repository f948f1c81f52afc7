"""Repetitions in an experiment: planned on val tasks, run once each, resumed where they stopped."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
import pytest

import ratchet
from ratchet.autopilot import Watcher
from ratchet.autopilot.experiment import ExperimentSettings, run_experiment
from ratchet.autopilot.repetitions import plan_repetitions
from ratchet.bind import current, current_seed
from ratchet.evaluate import Scorer, evaluator
from ratchet.learn import Budget, Lab, LabSettings
from ratchet.prove import ExperimentPlan, Guardrail, RepetitionPlan, verify
from ratchet.run import Runner
from ratchet.store import Store
from ratchet.types import Candidate, Dataset, Experiment, Float, Params, Rollout, Run, Task
from ratchet.worker.agent import Agent, AgentSpec
from ratchet.worker.inprocess import AsyncExecutor

SPACE = {"chance": Float(0.0, 0.0, 1.0)}
CALLS: Counter[tuple[int, float, int]] = Counter()


def chance() -> float:
    binding = current()
    assert binding is not None
    params = binding.resources["knobs"]
    assert isinstance(params, Params)
    return float(params.values["chance"])


@ratchet.agent
async def varies(number: int) -> float:
    """Solves a task by chance, and differently whenever it is asked."""
    CALLS[number, chance(), current_seed()] += 1
    return float(random.Random(current_seed()).random() < chance())


@evaluator
def score(output: float) -> float:
    return output


def candidate(value: float) -> Candidate:
    return Candidate.of({"knobs": Params(SPACE, {"chance": value})})


BASELINE, CANDIDATE = candidate(0.3), candidate(0.6)
RUN = Run(id="run", agent="agent", seed=5, stage="prove", created_at=0.0, updated_at=0.0)
TASKS = tuple(Task(f"t{number}", number) for number in range(130))
SPLITS: dict[str, Literal["val", "test"]] = {
    task.id: "val" if number < 50 else "test" for number, task in enumerate(TASKS)
}


def setting(tests: int) -> ExperimentSettings:
    return ExperimentSettings(
        project="",
        run=RUN,
        baseline=BASELINE,
        candidate=CANDIDATE,
        dataset=Dataset(name="d", tasks=TASKS[: 50 + tests], splits=SPLITS),
        objective="score",
        alpha=0.05,
        min_gain=0.01,
        harm_alpha=0.05,
        futility_alpha=0.05,
        min_pairs=10,
        guardrails=(Guardrail("errors", 0.2),),
        max_attempts=1,
        queue=RUN.id,
    )


@pytest.fixture
def local(sqlite_url: str) -> Store:
    CALLS.clear()
    store = Store.open(sqlite_url)
    store.runs.put(RUN)
    return store


def runner_of(store: Store, agent: object) -> Runner:
    spec = AgentSpec(entry="tests:varies", root=".")
    return Runner(store, RUN.id, AsyncExecutor(Agent(spec, agent), slots=4, timeout_s=10))


def planned(
    store: Store,
    *,
    agent: object = varies,
    wanted: int | Literal["auto"] = "auto",
    tests: int = 40,
    budget: Budget | None = None,
) -> RepetitionPlan:
    async def main() -> RepetitionPlan:
        async with runner_of(store, agent) as runner:
            lab = Lab(
                LabSettings(
                    run_id=RUN.id,
                    stage="learn",
                    queue=RUN.id,
                    objective="score",
                    seed=RUN.seed,
                    max_attempts=1,
                ),
                baseline=BASELINE,
                train=(),
                val=TASKS[:50],
                runner=runner,
                scorer=Scorer(store, [score]),
                store=store,
                budget=budget or Budget(rollouts=2000),
            )
            plan = ExperimentPlan(max_pairs=tests)
            async with lab:
                return await plan_repetitions(
                    plan, wanted, lab=lab, candidate=CANDIDATE, dollars=lab.budget.dollars
                )

    return asyncio.run(main())


class Killed(Exception):
    """The process ends here."""


class KilledInTheMiddle(Watcher):
    """Ends an experiment after so many rollouts."""

    def __init__(self, rollouts: int) -> None:
        self.left = rollouts
        self.expected: list[int] = []
        self.messages: list[str] = []

    def expects(self, rollouts: int) -> None:
        self.expected.append(rollouts)

    def message(self, text: str) -> None:
        self.messages.append(text)

    def rollout(self, rollout: Rollout) -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed


def conduct(store: Store, folder: Path, watcher: Watcher, tests: int = 40) -> Experiment:
    async def main() -> Experiment:
        async with runner_of(store, varies) as runner:
            return await run_experiment(
                setting(tests),
                store=store,
                runner=runner,
                scorer=Scorer(store, [score]),
                evidence_dir=folder,
                watcher=watcher,
                plan_repetitions=lambda plan: five(),
            )

    return asyncio.run(main())


async def five() -> RepetitionPlan:
    return RepetitionPlan(5, "a test says so")


def calls_by_task(side: Candidate) -> Counter[int]:
    params = side.resources["knobs"]
    assert isinstance(params, Params)
    return Counter(number for number, value, _ in CALLS if value == params.values["chance"])


def test_an_agent_whose_answers_vary_is_repeated_as_val_tasks_say(local: Store) -> None:
    chosen = planned(local)
    assert chosen.count > 1
    assert "two runs of the baseline on a val task differ by" in chosen.sentence
    assert max(number for number, _, _ in CALLS) < 50, "no test task was run"
    assert calls_by_task(BASELINE).total() == 2 * 50
    assert calls_by_task(CANDIDATE).total() == 50


@pytest.mark.parametrize("wanted", [1, 7])
def test_a_configured_number_needs_no_pilot(local: Store, wanted: int) -> None:
    chosen = planned(local, wanted=wanted)
    assert chosen.count == wanted
    assert chosen.sentence.endswith(f"each candidate: repetitions = {wanted} under [prove].")
    assert not CALLS


@pytest.mark.parametrize("rollouts", [160, 320, 1000])
def test_all_repetitions_together_stay_within_the_rollouts_of_learning(
    local: Store, rollouts: int
) -> None:
    chosen = planned(local, budget=Budget(rollouts=rollouts))
    assert 1 < chosen.count <= rollouts // 80


@pytest.mark.parametrize(
    ("cost", "most"), [({"cost_usd": 0.01}, 4), ({"cost_usd": None, "unpriced": {"m": 1}}, 1)]
)
def test_the_dollars_of_learning_bound_repetitions_and_an_unknown_price_allows_none(
    local: Store, monkeypatch: pytest.MonkeyPatch, cost: dict[str, object], most: int
) -> None:
    whole = Runner.run

    async def priced(self: Runner, rollouts: Sequence[Rollout], *rest: object) -> object:
        ended = await whole(self, rollouts, *rest)  # type: ignore[arg-type]
        return {key: msgspec.structs.replace(one, **cost) for key, one in ended.items()}

    monkeypatch.setattr(Runner, "run", priced)
    # One repetition of 40 tasks is 80 rollouts, or $0.80.
    chosen = planned(local, budget=Budget(rollouts=2000, dollars=3.5))
    assert (chosen.count > 1) == (most > 1)
    assert chosen.count <= most


def test_each_task_is_run_as_often_as_planned_and_the_evidence_verifies(
    local: Store, tmp_path: Path
) -> None:
    watcher = KilledInTheMiddle(-1)
    ended = conduct(local, tmp_path, watcher)
    assert ended.decision is not None
    assert ended.decision.repetitions == 5
    assert watcher.expected == [2 * 5 * 40]
    assert watcher.messages == [
        "Each test task is run 5 times with each candidate: a test says so."
    ]
    assert set(CALLS.values()) == {1}
    assert set(calls_by_task(BASELINE).values()) == {5}
    assert calls_by_task(BASELINE) == calls_by_task(CANDIDATE)
    found = verify(ended.evidence_path).require()
    assert found.decision == ended.decision
    content = json.loads(Path(ended.evidence_path).read_text())
    assert content["context"]["repetitions"] == watcher.messages[0]
    named = [r for row in content["pairs"] for run in row["repetitions"] for r in run["rollouts"]]
    assert len(named) == len(set(named)) == 2 * 5 * found.pairs
    assert {rollout.status for rollout in local.rollouts.get(named).values()} == {"succeeded"}


@pytest.mark.parametrize("after", [7, 96, 203])
def test_an_experiment_killed_between_repetitions_goes_on_and_repeats_none(
    local: Store, tmp_path: Path, after: int
) -> None:
    with pytest.raises(Killed):
        conduct(local, tmp_path / "killed", KilledInTheMiddle(after))
    assert local.experiments.list(1)[0].decision is None
    resumed = conduct(local, tmp_path / "killed", Watcher())
    assert set(CALLS.values()) == {1}
    made = CALLS.copy()
    other = Store.open(f"sqlite:///{tmp_path}/whole.db")
    other.runs.put(RUN)
    CALLS.clear()
    whole = conduct(other, tmp_path / "whole", Watcher())
    assert resumed.decision == whole.decision
    assert made == CALLS
