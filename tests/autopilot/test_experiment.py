"""Experiments: real rollouts in pairs, evidence on disk, and the budget that a stream shares."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

import ratchet
from ratchet.autopilot import Watcher
from ratchet.autopilot.experiment import (
    ExperimentSettings,
    pairs_to_label,
    reach,
    run_experiment,
)
from ratchet.bind import current
from ratchet.evaluate import Scorer, evaluator
from ratchet.prove import Comparison, Guardrail, level, verify
from ratchet.run import Runner
from ratchet.store import Store
from ratchet.types import (
    Candidate,
    Dataset,
    Experiment,
    Float,
    Label,
    Params,
    Run,
    Task,
)
from ratchet.worker.agent import Agent, AgentSpec
from ratchet.worker.inprocess import AsyncExecutor

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


def setting(
    agent: str, number: int, *, before: float, after: float, project: str = "", tasks: int = 80
) -> ExperimentSettings:
    given = tuple(Task(f"t{n}", n) for n in range(tasks))
    run = Run(
        id=f"run-{agent}-{number}", agent=agent, seed=number, stage="prove", created_at=0.0,
        updated_at=0.0,
    )  # fmt: skip
    return ExperimentSettings(
        project=project,
        run=run,
        baseline=candidate(before),
        candidate=candidate(after),
        dataset=Dataset(name="d", tasks=given, splits={task.id: "test" for task in given}),
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


class Killed(Exception):
    """The process ends here."""


class KilledAtOnce(Watcher):
    """Ends an experiment at its first pair."""

    def pair(self, comparison: Comparison, most: int) -> None:
        raise Killed


def conduct(
    store: Store, folder: Path, wanted: ExperimentSettings, watcher: Watcher | None = None
) -> Experiment:
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
                watcher=watcher or Watcher(),
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


def test_alpha_is_shared_by_the_experiments_of_one_project_one_agent_and_one_objective(
    local: Store, tmp_path: Path
) -> None:
    def begin(wanted: ExperimentSettings) -> float:
        with pytest.raises(Killed):
            conduct(local, tmp_path, wanted, KilledAtOnce())
        return local.experiments.list(1)[0].alpha

    ours = setting("a", 1, before=0.2, after=0.9)
    first = begin(ours)
    assert first == level(0.05, [])
    assert begin(setting("a", 2, before=0.2, after=0.9)) == level(0.05, [False])
    # The same run in another project, for another objective, and another agent's.
    assert begin(msgspec.structs.replace(ours, project="theirs")) == first
    assert begin(msgspec.structs.replace(ours, objective="other")) == first
    assert begin(setting("b", 1, before=0.2, after=0.9)) == first


def test_an_experiment_goes_on_when_an_earlier_one_was_promoted_while_it_was_interrupted(
    local: Store, tmp_path: Path
) -> None:
    first = setting("a", 1, before=0.2, after=0.9)
    second = setting("a", 2, before=0.2, after=0.8)
    for begun in (first, second):
        with pytest.raises(Killed):
            conduct(local, tmp_path, begun, KilledAtOnce())
    promoted, ended = (conduct(local, tmp_path, resumed) for resumed in (first, second))
    assert promoted.decision is not None
    assert promoted.decision.verdict == "promote"
    assert (promoted.alpha, ended.alpha) == (level(0.05, []), level(0.05, [False]))
    assert verify(ended.evidence_path).ok


def test_what_the_test_tasks_cannot_prove_is_told_before_anything_is_spent(
    local: Store, tmp_path: Path
) -> None:
    few = setting("a", 1, before=0.2, after=0.9, tasks=5)
    few = msgspec.structs.replace(few, widened=frozenset({"errors"}))
    [said] = reach(few, local)
    assert said.startswith("5 test tasks cannot prove a gain: even a perfect candidate needs about")
    assert "about 7 test tasks." in said
    assert reach(setting("a", 1, before=0.2, after=0.9, tasks=44), local) == []
    [said] = reach(setting("a", 1, before=0.2, after=0.9, tasks=30), local)
    assert said.startswith("Guardrail errors: a margin of 0.1 takes about ")
    assert " and 30 can prove only 0." in said
    with pytest.raises(Killed):
        conduct(local, tmp_path, few, KilledAtOnce())
    [said] = reach(setting("a", 2, before=0.2, after=0.9, tasks=44), local)
    assert said.startswith("Guardrail errors: a margin of 0.1 takes about "), (
        "the next experiment has a smaller level"
    )
    none = setting("a", 1, before=0.2, after=0.9, tasks=44)
    margin = msgspec.structs.replace(none.guardrails[0], margin=0.0)
    [said] = reach(msgspec.structs.replace(none, guardrails=(margin,)), local)
    assert "no number of test tasks proves a margin of 0" in said


def test_added_tasks_continue_what_was_not_proved_at_its_level_and_with_its_margins(
    local: Store, tmp_path: Path
) -> None:
    few = setting("a", 1, before=0.5, after=0.75, tasks=12)
    few = msgspec.structs.replace(few, widened=frozenset({"errors"}))
    local.datasets.put(few.dataset, 0.0)
    first = conduct(local, tmp_path, few)
    assert first.decision is not None
    assert first.decision.verdict == "not_proved"
    pairs = evidence_pairs(first)
    more = setting("a", 1, before=0.5, after=0.75, tasks=60).dataset
    rollouts = sum(local.rollouts.counts().values())
    conduct(local, tmp_path, setting("a", 2, before=0.5, after=0.5, tasks=60))
    between = sum(local.rollouts.counts().values())
    ended = conduct(local, tmp_path, msgspec.structs.replace(few, dataset=more))
    assert ended.decision is not None
    assert ended.decision.verdict == "promote"
    assert (ended.id, ended.alpha, ended.history) == (first.id, first.alpha, first.history)
    assert ended.decision.guardrails[0].margin == first.decision.guardrails[0].margin
    assert evidence_pairs(ended)[:12] == pairs, "what was compared stays, in its order"
    assert verify(ended.evidence_path).ok
    paid = sum(local.rollouts.counts().values()) - between
    assert paid <= 2 * (ended.decision.pairs + 3 - 12), f"{rollouts} were paid before"


def evidence_pairs(experiment: Experiment) -> list[tuple[str, list[str]]]:
    rows = json.loads(Path(experiment.evidence_path).read_text())["pairs"]
    return [(row["task"], row["rollouts"]) for row in rows]


def test_a_judges_gain_waits_for_labels_of_the_drawn_pairs(tmp_path: Path) -> None:
    def label(id: str, value: float) -> Label:
        return Label(id=id, rollout_id=id, value=value, labeller="ana", drawn="random")

    with Store.open(f"sqlite:///{tmp_path}/ratchet.db") as store:
        wanted = msgspec.structs.replace(setting("a", 1, before=0.2, after=0.8), labels=20)
        waiting = conduct(store, tmp_path, wanted)
        assert (waiting.decision, waiting.evidence_path) == (None, "")
        pairs = pairs_to_label(wanted, 1, store)
        assert len(pairs) == 20
        assert set(store.rollouts.get([id for pair in pairs for id in pair])) == {
            id for pair in pairs for id in pair
        }
        store.labels.add([label(before, 0.0) for before, _ in pairs], 1.0)
        assert conduct(store, tmp_path, wanted).decision is None  # no pair has both labels
        store.labels.add([label(after, 1.0) for _, after in pairs], 1.0)
        decided = conduct(store, tmp_path, wanted)
        assert decided.decision is not None
        assert decided.decision.verdict == "promote"
        assert verify(decided.evidence_path).ok


def test_labels_against_the_judge_end_the_experiment(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path}/ratchet.db") as store:
        wanted = msgspec.structs.replace(setting("a", 2, before=0.2, after=0.8), labels=20)
        labels = [
            Label(id=f"{labeller}/{id}", rollout_id=id, value=0.5, labeller=labeller)
            for pair in pairs_to_label(wanted, 1, store)
            for id in pair
            for labeller in ("ana", "bo")
        ]
        store.labels.add(labels, 1.0)
        decided = conduct(store, tmp_path, wanted)
        assert decided.decision is not None
        assert decided.decision.verdict == "unconfirmed"
        assert decided.decision.labelled is not None
        assert decided.decision.labelled.gain == 0.0
