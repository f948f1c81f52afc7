"""The gate of the proof: what goes there, in which order, and how a run goes on after a failure."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from tests.autopilot.code_project import loaded
from tests.repositories import committed

from ratchet.autopilot import Project, Watcher, improve
from ratchet.autopilot.algorithms import ALGORITHMS
from ratchet.autopilot.nomination import next_nominee, ranked
from ratchet.learn import Finding, Lab, mean
from ratchet.prove import verify
from ratchet.types import Decision, PromptTemplate, Run

AGENT = """
import ratchet

SYSTEM = ratchet.prompt("system", "Answer.")


@ratchet.agent
def answer(number):
    return float("all" in str(SYSTEM) or f" {number} " in str(SYSTEM))


@ratchet.evaluator
def right(output):
    return output
"""

CONFIG = """
[agent]
entry = "nominating_agent:answer"
[[evaluators]]
use = "nominating_agent:right"
vouched = true
[tasks.split]
train = 0.4
val = 0.1
test = 0.5
[improve]
algorithm = "given"
[run]
executor = "inline"
[[guardrails]]
metric = "latency"
off = true
"""


class Hesitant:
    """Tries a prompt that knows tasks of learning by heart, and good ones; chooses none."""

    name = "given"

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    async def learn(self, lab: Lab) -> Finding:
        """Evaluate all."""
        before = mean(await lab.evaluate(lab.baseline, [*lab.train, *lab.val]))
        learned = " ".join(str(task.input) for task in (*lab.train, *lab.val)[::2])
        for text in self.texts:
            prompt = PromptTemplate(text.replace("LEARNED", f" {learned} "))
            candidate = lab.propose({"system": prompt}, algorithm="given", reason=text)
            tasks = lab.train[:4] if "all" in text else [*lab.train, *lab.val]
            await lab.evaluate(candidate, tasks)
        return Finding(
            best=lab.baseline,
            baseline_val=0.123,
            best_val=before,
            proposals=len(self.texts),
            sentence="All were tried.",
        )


class Told(Watcher):
    """What a run says."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.decisions: list[tuple[Decision, str]] = []

    def message(self, text: str) -> None:
        """A sentence."""
        self.said.append(text)

    def decided(self, decision: Decision, evidence: str) -> None:
        """A proof has ended."""
        self.decisions.append((decision, evidence))


def run(root: Path, algorithm: Hesitant, monkeypatch: pytest.MonkeyPatch) -> tuple[Run, Told]:
    root.mkdir()
    (root / "nominating_agent.py").write_text(AGENT)
    (root / "ratchet.toml").write_text(CONFIG)
    lines = [f'{{"id": "t{n}", "input": {1000 + 7919 * n}}}' for n in range(120)]
    (root / "tasks.jsonl").write_text("\n".join(lines) + "\n")
    committed(root)
    monkeypatch.setitem(ALGORITHMS, "given", lambda: algorithm)
    told = Told()
    with loaded(root):
        project = Project.find(root)
        with project.open_store() as store:
            return asyncio.run(improve(project, store, watcher=told)), told


def test_a_candidate_that_fails_its_proof_gives_way_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    algorithm = Hesitant("By heart: LEARNED.", "Get all right.", "Answer well.")
    ended, told = run(tmp_path / "project", algorithm, monkeypatch)
    first, second = told.decisions
    assert (first[0].verdict, second[0].verdict) == ("no_gain", "promote")
    assert first[0].pairs < 58, "it ends before all test tasks are run"
    assert any("of 58 test tasks: proving a gain has become unlikely" in text for text in told.said)
    assert ended.stage == "shipped"
    assert verify(first[1]).ok
    assert verify(second[1]).ok


def test_nothing_goes_to_the_proof_that_nothing_tells_from_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, told = run(tmp_path / "project", Hesitant("Answer well.", "Answer!"), monkeypatch)
    assert ended.stage == "no_gain"
    assert told.decisions == []
    assert "the baseline, which scores 0.000 on 10 val tasks" in ended.message


def test_train_and_val_count_together() -> None:
    rng = random.Random(1)
    train = [0.17 + rng.gauss(0.0, 0.36) for _ in range(100)]
    val = [-0.017 + one for one in (-0.36, 0.36) * 12]
    assert [one.candidate_id for one in ranked({"a": val + train, "b": val}, "")] == ["a", "b"]


def test_the_choice_of_the_algorithm_comes_first_and_the_others_by_their_strength() -> None:
    seen = {
        "chosen": [0.1, 0.0] * 10,
        "few": [1.0, 0.0],
        "strong": [0.5, 0.1] * 20,
        "worse": [-0.5, -0.1] * 20,
        "equal": [0.0] * 40,
    }
    ids = [one.candidate_id for one in ranked(seen, "chosen")]
    assert ids == ["chosen", "strong", "few"]
    assert [one.candidate_id for one in ranked({"trained": []}, "trained")] == ["trained"]


def test_no_other_proof_begins_once_the_budget_of_proofs_is_spent() -> None:
    known = {
        "all_rollouts": 100,
        "nominees": [{"candidate_id": name, "gain": 0.1} for name in ("a", "b")],
    }
    assert next_nominee(known, "a", spent=40, shortest_proof=10) is not None
    assert next_nominee(known, "a", spent=41, shortest_proof=10) is None
    assert next_nominee(known, "b", spent=0, shortest_proof=10) is None
    assert next_nominee({}, "a", spent=0, shortest_proof=0) is None
