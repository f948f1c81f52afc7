"""Experiments: real rollouts in pairs, evidence on disk, and the budget that a stream shares."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

import ratchet
from ratchet.autopilot import Watcher
from ratchet.autopilot.experiment import Setting, run_experiment
from ratchet.bind import current
from ratchet.evaluate import Scorer, evaluator
from ratchet.prove import Guardrail, level, verify
from ratchet.run import Agent, AgentSpec, AsyncExecutor, Runner
from ratchet.store import Store
from ratchet.types import Candidate, Dataset, Experiment, Float, Params, Run, Task

SPACE = {"aim": Float(0.0, 0.0, 1.0)}


@ratchet.agent
async def aims(number: int) -> float:
    binding = current()
    assert binding is not None
    params = binding.resources["knobs"]
    assert isinstance(params, Params)
    return float(params.values["aim"])


@evaluator
def score(output: float) -> float:
    return output


def candidate(aim: float) -> Candidate:
    return Candidate.of({"knobs": Params(SPACE, {"aim": aim})})


def setting(agent: str, number: int, *, before: float, after: float) -> Setting:
    tasks = tuple(Task(f"t{n}", n) for n in range(80))
    run = Run(
        id=f"run-{agent}-{number}", agent=agent, seed=number, stage="prove", created_at=0.0,
        updated_at=0.0,
    )  # fmt: skip
    return Setting(
        run=run,
        baseline=candidate(before),
        candidate=candidate(after),
        dataset=Dataset(name="d", tasks=tasks, splits={task.id: "test" for task in tasks}),
        objective="score",
        alpha=0.05,
        min_gain=0.01,
        harm_alpha=0.05,
        futility_alpha=0.05,
        min_pairs=10,
        guardrails=(Guardrail("errors", 0.1),),
        max_attempts=1,
        queue=run.id,
    )


def conduct(store: Store, folder: Path, wanted: Setting) -> Experiment:
    async def main() -> Experiment:
        spec = AgentSpec(entry="tests:aims", root=str(folder))
        executor = AsyncExecutor(Agent(spec, aims), slots=4, timeout_s=10)
        async with Runner(store, wanted.queue, executor) as runner:
            return await run_experiment(
                wanted,
                store=store,
                runner=runner,
                scorer=Scorer(store, [score]),
                evidence_dir=folder,
                watcher=Watcher(),
            )

    store.runs.put(wanted.run)
    return asyncio.run(main())


@pytest.fixture
def local(sqlite_url: str) -> Store:
    return Store.open(sqlite_url)


def test_a_better_candidate_is_promoted_with_evidence_that_verifies(
    local: Store, tmp_path: Path
) -> None:
    ended = conduct(local, tmp_path, setting("a", 1, before=0.2, after=0.9))
    assert ended.decision is not None
    assert ended.decision.verdict == "promote"
    assert ended.decision.pairs < 80, "it stops when it is decided"
    assert verify(ended.evidence_path).ok


def test_a_worse_candidate_is_stopped_early(local: Store, tmp_path: Path) -> None:
    ended = conduct(local, tmp_path, setting("a", 1, before=0.9, after=0.2))
    assert ended.decision is not None
    assert ended.decision.verdict in ("harm", "futile")
    assert ended.decision.pairs < 40


def test_the_same_candidate_brings_no_gain(local: Store, tmp_path: Path) -> None:
    same = setting("a", 1, before=0.5, after=0.5 + 1e-9)
    ended = conduct(local, tmp_path, same)
    assert ended.decision is not None
    assert ended.decision.verdict in ("futile", "no_gain")


def test_a_decided_experiment_is_found_again_and_runs_nothing(local: Store, tmp_path: Path) -> None:
    wanted = setting("a", 1, before=0.2, after=0.9)
    first = conduct(local, tmp_path, wanted)
    rollouts = local.rollouts.counts()
    assert conduct(local, tmp_path, wanted) == first
    assert local.rollouts.counts() == rollouts


def test_the_experiments_of_an_agent_share_its_alpha_and_those_of_others_have_their_own(
    local: Store, tmp_path: Path
) -> None:
    first = conduct(local, tmp_path, setting("a", 1, before=0.5, after=0.5 + 1e-9))
    second = conduct(local, tmp_path, setting("a", 2, before=0.5, after=0.5 + 2e-9))
    other = conduct(local, tmp_path, setting("b", 1, before=0.5, after=0.5 + 1e-9))
    assert first.alpha == level(0.05, [])
    assert second.alpha == level(0.05, [False])
    assert other.alpha == first.alpha


def test_a_rollout_that_fails_counts_as_zero_and_against_the_errors_guardrail(
    local: Store, tmp_path: Path
) -> None:
    broken = setting("a", 1, before=0.5, after=0.9)
    # A candidate without the resource that the agent needs: the agent raises on every task.
    broken = msgspec.structs.replace(broken, candidate=Candidate.of({"other": Params({})}))
    ended = conduct(local, tmp_path, broken)
    assert ended.decision is not None
    assert ended.decision.verdict in ("harm", "futile")
    assert ended.decision.candidate == 0.0
    assert ended.decision.guardrails[0].candidate == 1.0
    assert not ended.decision.guardrails[0].passed
