"""Frozen sets guard an experiment: from the store to the draws, the evidence and its check."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

import ratchet
from ratchet.autopilot import Watcher
from ratchet.autopilot.experiment import ExperimentSettings, run_experiment
from ratchet.autopilot.frozen_guards import FrozenGuards, choose_guards, frozen_guards
from ratchet.bind import current
from ratchet.evaluate import Scorer, evaluator
from ratchet.prove import verify
from ratchet.run import Runner
from ratchet.store import Store
from ratchet.types import (
    Candidate,
    Dataset,
    Decision,
    Experiment,
    Float,
    FrozenSet,
    Params,
    Rollout,
    Run,
    Task,
    VerificationError,
)
from ratchet.worker.agent import Agent, AgentSpec
from ratchet.worker.inprocess import AsyncExecutor

SPACE = {"aim": Float(0.0, 0.0, 1.0)}


@ratchet.agent
async def answers(question: dict[str, float]) -> float:
    """Right if the aim is above what the question takes; a frozen question also bounds it."""
    binding = current()
    assert binding is not None
    params = binding.resources["knobs"]
    assert isinstance(params, Params)
    aim = float(params.values["aim"])
    return float(question["from"] <= aim < question.get("to", 2.0))


@evaluator
def score(output: float) -> float:
    return output


def candidate(aim: float) -> Candidate:
    return Candidate.of({"knobs": Params(SPACE, {"aim": aim})})


def frozen_set(
    name: str, *, lost: int = 0, right: bool = True, count: int = 20, **changes: Any
) -> FrozenSet:
    """A set of which an aim of 0.9 loses so many tasks; or, if not right, all are always wrong."""
    tasks = tuple(
        Task(
            f"{name}-{n}",
            {"id": n, "from": 0.0 if right else 2.0, **({"to": 0.5} if n < lost else {})},
        )
        for n in range(count)
    )
    fields = {"loss": 0.1, "created_at": 1.0, **changes}
    return FrozenSet(
        id=f"set-{name}", project="p", problem_id=f"problem-{name}", title=name, tasks=tasks,
        **fields,
    )  # fmt: skip


def setting(*sets: FrozenSet, after: float = 0.9, tasks: int = 160) -> ExperimentSettings:
    given = tuple(Task(f"t{n}", {"id": n, "from": 0.6}) for n in range(tasks))
    run = Run(
        id="run", agent="a", seed=3, stage="prove", created_at=0.0, updated_at=0.0
    )  # fmt: skip
    return ExperimentSettings(
        project="p",
        run=run,
        baseline=candidate(0.2),
        candidate=candidate(after),
        dataset=Dataset(name="d", tasks=given, splits={task.id: "test" for task in given}),
        objective="score",
        alpha=0.05,
        min_gain=0.01,
        harm_alpha=0.05,
        futility_alpha=0.05,
        min_pairs=10,
        guardrails=(),
        max_attempts=1,
        queue=run.id,
        frozen=sets,
    )


class Messages(Watcher):
    """Collects what is told, and ends the process after so many rollouts."""

    def __init__(self, killed_after: int = 10**9) -> None:
        self.texts: list[str] = []
        self.rollouts: list[str] = []
        self.killed_after = killed_after

    def message(self, text: str) -> None:
        self.texts.append(text)

    def rollout(self, rollout: Rollout) -> None:
        self.rollouts.append(rollout.id)
        if len(self.rollouts) >= self.killed_after:
            raise Killed


class Killed(Exception):
    """The process ends here."""


def conduct(
    store: Store,
    folder: Path,
    wanted: ExperimentSettings,
    watcher: Watcher | None = None,
    *,
    slots: int = 4,
    judge: Any = score,
) -> Experiment:
    async def main() -> Experiment:
        spec = AgentSpec(entry="tests:answers", root=str(folder))
        executor = AsyncExecutor(Agent(spec, answers), slots=slots, timeout_s=10)
        async with Runner(store, wanted.queue, executor) as runner:
            return await run_experiment(
                wanted,
                store=store,
                runner=runner,
                scorer=Scorer(store, [judge]),
                evidence_dir=folder,
                watcher=watcher or Watcher(),
            )

    store.runs.put(wanted.run)
    return asyncio.run(main())


def decided(experiment: Experiment) -> Decision:
    assert experiment.decision is not None
    return experiment.decision


@pytest.fixture
def local(sqlite_url: str) -> Store:
    return Store.open(sqlite_url)


def test_a_gain_that_keeps_what_was_fixed_is_promoted_and_its_draws_verify(
    local: Store, tmp_path: Path
) -> None:
    watcher = Messages()
    ended = conduct(local, tmp_path, setting(frozen_set("dates"), frozen_set("tools")), watcher)
    decision = decided(ended)
    assert decision.verdict == "promote"
    assert [(result.title, result.passed) for result in decision.frozen] == [
        ("dates", True), ("tools", True),
    ]  # fmt: skip
    assert "Proved to stay fixed: 'dates', 'tools'." in decision.sentence
    assert watcher.texts[0].startswith("2 frozen sets guard this proof: 'dates', 'tools'. If")
    evidence = json.loads(Path(ended.evidence_path).read_text())
    assert evidence["schema"] == "ratchet.evidence/6"
    assert len(evidence["draws"]) == sum(result.draws for result in decision.frozen)
    checked = verify(ended.evidence_path)
    assert checked.ok
    assert checked.decision == decision


def test_a_gain_that_loses_half_of_a_frozen_set_is_refused(local: Store, tmp_path: Path) -> None:
    ended = conduct(local, tmp_path, setting(frozen_set("dates", lost=10), frozen_set("tools")))
    decision = decided(ended)
    assert decision.verdict == "guardrail"
    dates, tools = decision.frozen
    assert not dates.passed
    assert tools.passed or tools.draws < dates.draws
    assert dates.broken
    assert set(dates.broken) <= {f"dates-{n}" for n in range(10)}
    assert dates.fixed == ()
    assert "Not proved to stay fixed: 'dates', mean 1.000 before" in decision.sentence
    assert verify(ended.evidence_path).ok


def test_a_proof_that_fails_runs_no_frozen_task(local: Store, tmp_path: Path) -> None:
    watcher = Messages()
    ended = conduct(local, tmp_path, setting(frozen_set("dates"), after=0.3), watcher)
    decision = decided(ended)
    assert decision.verdict in ("futile", "no_gain")
    assert decision.frozen == ()
    assert len(watcher.rollouts) == 2 * decision.pairs
    evidence = json.loads(Path(ended.evidence_path).read_text())
    assert evidence["draws"] == []
    assert [planned["title"] for planned in evidence["plan"]["frozen"]["sets"]] == ["dates"]
    assert verify(ended.evidence_path).ok


def test_every_draw_has_rollouts_of_its_own_and_they_are_at_most_as_many_as_the_proofs(
    local: Store, tmp_path: Path
) -> None:
    wanted = setting(*(frozen_set(name, lost=10) for name in "ab"))
    ended = conduct(local, tmp_path, wanted)
    evidence = json.loads(Path(ended.evidence_path).read_text())
    rollouts = [id for draw in evidence["draws"] for id in draw["rollouts"]]
    assert len(set(rollouts)) == len(rollouts) == 2 * len(evidence["draws"])
    assert max(Counter(draw["task"] for draw in evidence["draws"]).values()) > 1, "with replacement"
    assert len(evidence["draws"]) <= evidence["plan"]["frozen"]["draws"] <= 160
    of_pairs = {id for pair in evidence["pairs"] for id in pair["rollouts"]}
    assert len(local.rollouts.get(rollouts)) == len(rollouts)
    assert not of_pairs & set(rollouts)


@pytest.mark.parametrize("killed_after", [1, 30, 45, 60])
def test_killed_and_resumed_it_draws_the_same_and_pays_no_rollout_twice(
    local: Store, tmp_path: Path, killed_after: int
) -> None:
    sets = (frozen_set("dates"), frozen_set("tools"))
    wanted = setting(*sets)
    with pytest.raises(Killed):
        conduct(local, tmp_path, wanted, Messages(killed_after))
    # Whatever a person corrects or freezes meanwhile, this experiment goes on as it began.
    corrected = msgspec.structs.replace(sets[0], tasks=sets[0].tasks[:1], version=2)
    newer = frozen_set("newer", loss=0.9)
    resumed = msgspec.structs.replace(wanted, frozen=(newer, corrected, sets[1]))
    ended = conduct(local, tmp_path, resumed, slots=2)
    assert decided(ended).verdict == "promote"
    assert verify(ended.evidence_path).ok
    evidence = json.loads(Path(ended.evidence_path).read_text())
    used = {id for row in (*evidence["pairs"], *evidence["draws"]) for id in row["rollouts"]}
    stored = local.rollouts.counts()["succeeded"]
    in_flight = 4 + 2  # pairs and draws that were begun beside the last one of each life
    assert len(used) <= stored <= len(used) + 2 * in_flight
    alone = Store.open(f"sqlite:///{tmp_path}/alone.db")
    whole = conduct(alone, tmp_path / "alone", wanted, slots=2)
    drawn = [
        [(draw["set"], draw["task"]) for draw in json.loads(Path(path).read_text())["draws"]]
        for path in (ended.evidence_path, whole.evidence_path)
    ]
    assert drawn[0] == drawn[1]


def test_an_experiment_that_began_without_frozen_sets_ends_without_them(
    local: Store, tmp_path: Path
) -> None:
    wanted = setting()
    first = conduct(local, tmp_path, wanted)
    newer = msgspec.structs.replace(wanted, frozen=(frozen_set("newer"),))
    assert conduct(local, tmp_path, newer) == first
    assert decided(first).frozen == ()


def test_added_test_tasks_choose_the_sets_anew_for_a_proof_that_goes_on(local: Store) -> None:
    experiment = Experiment(
        id="e", run_id="run", baseline_id="b", candidate_id="c", dataset_version="d", stream="s",
        history=(), alpha=0.05, created_at=0.0,
    )  # fmt: skip

    def guards(planning: int, draws: int, *sets: FrozenSet) -> FrozenGuards:
        return frozen_guards(
            experiment, sets, local, answered=False, draws=draws, planning=planning
        )

    few = guards(1, 12, frozen_set("dates"))
    assert few.plan is None
    assert guards(1, 60, frozen_set("tools")) == few, "asked again, it is the same"
    more = guards(2, 60, frozen_set("dates"))
    assert more.plan is not None
    assert [planned.title for planned in more.plan.sets] == ["dates"]


def test_a_set_that_is_always_wrong_passes_and_says_that_it_had_nothing_to_lose(
    local: Store, tmp_path: Path
) -> None:
    decision = decided(conduct(local, tmp_path, setting(frozen_set("dates", right=False))))
    assert decision.verdict == "promote"
    assert decision.frozen[0].baseline == 0.0
    assert "The baseline is right in no draw of 'dates'" in decision.sentence


def test_draws_without_a_score_count_against_the_candidate(local: Store, tmp_path: Path) -> None:
    @evaluator(name="score")
    def undecided(output: float, input: dict[str, float]) -> float | None:
        return None if "to" in input and output == 0.0 else output

    wanted = setting(frozen_set("dates", lost=10))
    ended = conduct(local, tmp_path, wanted, judge=undecided)
    decision = decided(ended)
    assert decision.verdict == "guardrail"
    assert decision.frozen[0].missing > 0
    assert verify(ended.evidence_path).ok


def test_the_worst_sets_that_the_draws_can_hold_are_chosen_and_the_others_are_named() -> None:
    sets = [frozen_set(str(number)) for number in range(10)]
    guards = choose_guards(sets, alpha=0.05, answered=False, draws=72)
    assert guards.plan is not None
    assert [planned.title for planned in guards.plan.sets] == ["0", "1", "2"]
    assert guards.plan.draws <= 72
    assert guards.plan.sets[0].margin <= 0.4
    assert "; 7 are left out, since 72 draws are too few for them: '3', '4'" in guards.sentences[0]


def test_a_proof_too_small_for_any_set_says_so_and_what_is_enough() -> None:
    guards = choose_guards([frozen_set("dates")], alpha=0.05, answered=False, draws=12)
    assert guards.plan is None
    assert guards.sentences[0].startswith("No frozen set guards this proof ('dates'): it runs each")
    assert "30 would be enough for one set" in guards.sentences[0]


def test_a_set_without_expected_answers_is_left_out_where_the_objective_needs_them() -> None:
    guards = choose_guards([frozen_set("dates")], alpha=0.05, answered=True, draws=100)
    assert guards.plan is None
    assert "none of its tasks has an expected answer" in guards.sentences[0]


def test_a_draw_of_another_task_than_its_seed_draws_is_no_evidence(
    local: Store, tmp_path: Path
) -> None:
    path = Path(conduct(local, tmp_path, setting(frozen_set("dates"))).evidence_path)
    evidence = json.loads(path.read_text())
    evidence["draws"][0]["task"] = evidence["draws"][1]["task"]
    path.write_text(json.dumps(evidence))
    with pytest.raises(VerificationError, match=r"draw 1 is task .* its seed draws"):
        verify(path)


def test_a_draw_whose_score_was_changed_is_found_and_named(local: Store, tmp_path: Path) -> None:
    wanted = setting(frozen_set("dates", lost=10))
    path = Path(conduct(local, tmp_path, wanted).evidence_path)
    evidence = json.loads(path.read_text())
    lost = next(draw for draw in evidence["draws"] if draw["candidate"] == 0.0)
    lost["candidate"] = 1.0
    path.write_text(json.dumps(evidence))
    findings = verify(path).findings
    assert findings[0].startswith(f"draw {lost['draw']} (task {lost['task']}): e_value: ")
