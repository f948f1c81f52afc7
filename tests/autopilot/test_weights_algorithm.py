"""SFT and DPO with a tiny model that is really trained, and a lab whose rollouts are scripted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.autopilot.tiny_model import write_tiny_model
from tests.weights.recorded import asked

from ratchet.autopilot.adapters import served_name
from ratchet.autopilot.algorithms import make_algorithm
from ratchet.autopilot.trainable import TrainableModel
from ratchet.autopilot.weights_algorithm import WeightsAlgorithm
from ratchet.learn import Budget, BudgetExhausted, Evaluation, Finding
from ratchet.learn.work import Proposal
from ratchet.types import Adapter, Candidate, InputError, Model, Resource, Rollout, Span, Task

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model."""
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


class LoadedOnly(TrainableModel):
    """A model without a server, which notes what it should serve."""

    def __init__(self, source: Path, state: Path) -> None:
        super().__init__(str(source), None, state, "tiny")  # type: ignore[arg-type]
        self.served: list[Adapter] = []

    def serve(self, adapter: Adapter) -> None:
        self.adapters.verified(adapter)
        self.served.append(adapter)


class ScriptedLab:
    """The baseline answers `no` to everything; every other candidate is right on val."""

    run_id = "run"
    parts = ()

    def __init__(self, *, rollouts: int | None = None, gain: float = 1.0) -> None:
        self.train = [Task(f"t{n}", f"q{n}", "yes") for n in range(4)]
        self.val = [Task(f"v{n}", f"w{n}", "yes") for n in range(2)]
        self.baseline = Candidate.of({"model": Model("tiny")})
        self.budget = self.spent = Budget(rollouts=rollouts)
        self.notes: list[str] = []
        self.proposals: list[Proposal] = []
        self.note = self.notes.append
        self.judged = self.proposals.append
        self._gain = gain

    async def evaluate(
        self,
        candidate: Candidate,
        tasks: Sequence[Task],
        *,
        repetition: int = 0,
        training: str = "",
    ) -> list[Evaluation]:
        value = 0.0 if candidate.id == self.baseline.id else self._gain
        return [
            Evaluation(
                task=task,
                rollout=Rollout(
                    id=f"{task.id}/{repetition}",
                    queue="q",
                    candidate_id=candidate.id,
                    task_id=task.id,
                    input=task.input,
                    status="succeeded",
                    output="no",
                ),
                value=value,
                scores={},
            )
            for task in tasks
        ]

    async def spans(self, evaluation: Evaluation) -> list[Span]:
        return asked(str(evaluation.task.input), "no")

    def propose(self, resources: dict[str, Resource], **about: str) -> Candidate:
        return self.baseline.derive(resources, **about)


def learn(name: str, model: LoadedOnly | None, lab: ScriptedLab, **options: Any) -> Finding:
    given = {"epochs": 4, "batch": 2, "learning_rate": 1e-2, "rank": 2, **options}
    algorithm = make_algorithm(name, given)
    assert isinstance(algorithm, WeightsAlgorithm)
    algorithm.model = model
    made: Any = lab
    return asyncio.run(algorithm.learn(made))


@pytest.mark.parametrize("name", ["sft", "dpo"])
def test_trained_weights_become_a_candidate_that_is_served(
    name: str, folder: Path, tmp_path: Path
) -> None:
    lab, model = ScriptedLab(), LoadedOnly(folder, tmp_path)
    found = learn(name, model, lab)
    resource = found.best.resources["model"]
    assert isinstance(resource, Model)
    assert resource.adapter is not None
    assert model.served == [resource.adapter]
    assert resource.model == served_name(resource.adapter.hash)
    assert resource.adapter.base == model.load_base().fingerprint
    assert resource.adapter.recipe["algorithm"] == name
    assert (found.baseline_val, found.best_val) == (0.0, 1.0)
    assert [proposal.candidate_id for proposal in lab.proposals] == [found.best.id]


def test_a_run_that_is_repeated_ends_with_the_same_weights_and_trains_nothing_anew(
    folder: Path, tmp_path: Path
) -> None:
    first = learn("sft", LoadedOnly(folder, tmp_path), ScriptedLab())
    metrics = next(tmp_path.glob("training/*/metrics.jsonl"))
    before = metrics.read_bytes()
    assert learn("sft", LoadedOnly(folder, tmp_path), ScriptedLab()).best.id == first.best.id
    assert metrics.read_bytes() == before
    elsewhere = learn("sft", LoadedOnly(folder, tmp_path / "new"), ScriptedLab())
    assert elsewhere.best.id == first.best.id


def test_weights_that_are_no_better_in_the_agent_are_not_the_best(
    folder: Path, tmp_path: Path
) -> None:
    lab = ScriptedLab(gain=0.0)
    found = learn("sft", LoadedOnly(folder, tmp_path), lab)
    assert found.best.id == lab.baseline.id
    assert found.proposals == 1
    assert lab.proposals[0].accepted == ""


def test_a_budget_that_is_too_small_is_refused_before_anything_runs(
    folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(BudgetExhausted, match="it takes 8 on 4 train and 2 val tasks"):
        learn("sft", LoadedOnly(folder, tmp_path), ScriptedLab(rollouts=7))
    with pytest.raises(BudgetExhausted, match="it takes 14"):
        learn("dpo", LoadedOnly(folder, tmp_path), ScriptedLab(rollouts=13), repetitions=2)


def test_when_nothing_can_be_learned_the_reason_is_said(folder: Path, tmp_path: Path) -> None:
    lab = ScriptedLab()
    lab.train = [Task("t", "q", {"not": "a text"})]
    with pytest.raises(InputError, match="Nothing can be learned from the"):
        learn("sft", LoadedOnly(folder, tmp_path), lab)
    assert lab.notes == ["1 left out of training: it scored below 0.8, and no text is expected."]
