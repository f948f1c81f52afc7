from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ratchet.autopilot.lab_sampler import LabSampler
from ratchet.learn import Evaluation
from ratchet.learn.work import LabSettings, RolloutTokens
from ratchet.types import (
    Adapter,
    Candidate,
    Model,
    RatchetError,
    Resource,
    Rollout,
    Task,
    Transition,
    pack_floats,
    pack_ids,
    trains,
)

pytestmark = pytest.mark.torch

TASKS = [Task("a", "?"), Task("b", "?")]
WORK = LabSettings(run_id="run", stage="learn", queue="q", objective="s", seed=0, max_attempts=1)


def transition(rollout: Rollout) -> Transition:
    return Transition(
        id=f"call-{rollout.id}",
        rollout_id=rollout.id,
        fence=1,
        call_index=0,
        model="m",
        prompt_ids=pack_ids([1]),
        response_ids=pack_ids([2]),
        logprobs=pack_floats([-0.5]),
        started_ns=1,
        ended_ns=2,
    )


class RunningLab:
    """A lab whose rollouts end at once; the score is the repetition."""

    def __init__(self, *, keeps: bool = True) -> None:
        self.baseline = Candidate.of({"model": Model("local")})
        self.ran: list[tuple[str, Rollout]] = []
        self.proposed: list[Adapter] = []
        self._keeps = keeps

    async def evaluate(
        self,
        candidate: Candidate,
        tasks: Sequence[Task],
        *,
        repetition: int = 0,
        training: str = "",
    ) -> list[Evaluation]:
        rollouts = [WORK.rollout(t, candidate.id, repetition, training=training) for t in tasks]
        self.ran += [(candidate.id, rollout) for rollout in rollouts]
        return [
            Evaluation(task=task, rollout=rollout, value=float(repetition), scores={})
            for task, rollout in zip(tasks, rollouts, strict=True)
        ]

    async def tokens(self, evaluations: Sequence[Evaluation]) -> list[RolloutTokens]:
        calls = [transition(one.rollout) for one in evaluations]
        return [RolloutTokens((c,) if self._keeps else (), {c.id: 0.25}) for c in calls]

    def propose(self, resources: dict[str, Resource], **about: str) -> Candidate:
        model = resources["model"]
        assert isinstance(model, Model)
        assert model.adapter is not None
        self.proposed.append(model.adapter)
        return self.baseline.derive(resources, **about)


class Served:
    """A model that notes which adapters it was given."""

    def __init__(self) -> None:
        self.loaded: list[str] = []

    def load(self, hash: str, folder: Path) -> None:
        self.loaded.append(hash)


def sampler(lab: Any, model: Any) -> LabSampler:
    base: Any = SimpleNamespace(fingerprint="base", tokenizer_hash="tokens")
    made = LabSampler(lab, model, base, "model", Model("local"), "grpo")
    made.recipe = {"rank": 4}
    return made


def collect(lab: Any, batch: str, adapter: Path | None = None, model: Any = None) -> list[Any]:
    one = sampler(lab, model or Served())
    return asyncio.run(one.collect(adapter, TASKS, 2, batch=batch))


def test_rollouts_come_by_task_and_repetition_with_tokens_and_rewards() -> None:
    found = collect(RunningLab(), "train-00003")
    assert [(one.task_id, one.reward) for one in found] == [
        ("a", 6.0),
        ("a", 7.0),
        ("b", 6.0),
        ("b", 7.0),
    ]
    assert all(one.call_rewards == {one.transitions[0].id: 0.25} for one in found)


def test_batches_have_rollouts_of_their_own_and_the_same_when_asked_again() -> None:
    lab = RunningLab()
    ids = [{one.rollout_id for one in collect(lab, f"train-{n:05d}")} for n in (0, 1, 0)]
    assert ids[0] == ids[2]
    assert not ids[0] & ids[1]


def test_rollouts_that_train_are_others_than_those_that_measure() -> None:
    lab = RunningLab()
    trained = {one.rollout_id for one in collect(lab, "train-00000")}
    measured = {one.rollout_id for one in collect(lab, "val-00000")}
    assert not trained & measured
    assert [trains(rollout.purpose) for _, rollout in lab.ran] == [True] * 4 + [False] * 4


def test_rollouts_of_a_batch_are_found_by_their_purpose_and_the_weights_that_made_them() -> None:
    lab = RunningLab()
    for batch in ("train-00000", "train-00001"):
        found = collect(lab, batch)
        ran = [(candidate, rollout.purpose) for candidate, rollout in lab.ran[-4:]]
        assert {(one.candidate_id, one.purpose) for one in found} == set(ran)
        assert ran[0][1] == f"train/{WORK.run_id}/{batch}"


def test_a_version_of_the_weights_is_a_candidate_that_is_served(tmp_path: Path) -> None:
    from tests.autopilot.test_adapters import adapter

    lab, model = RunningLab(), Served()
    collect(lab, "train-00000", adapter(tmp_path / "000000"), model)
    collect(lab, "train-00001", adapter(tmp_path / "000001", 2.0), model)
    assert lab.proposed[-1] == Adapter(
        model.loaded[1], "base", "tokens", {"algorithm": "grpo", "steps": 1, "rank": 4}
    )
    assert len(set(model.loaded)) == 2
    assert len({candidate for candidate, _ in lab.ran}) == 2
    assert lab.baseline.id not in {candidate for candidate, _ in lab.ran}


def test_rollouts_without_tokens_are_refused_unless_they_only_measure() -> None:
    assert len(collect(RunningLab(keeps=False), "val-00000")) == 4
    with pytest.raises(RatchetError, match="No tokens of model calls"):
        collect(RunningLab(keeps=False), "train-00000")
