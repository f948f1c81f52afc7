"""Code that gets better with no key and no coach: from `ratchet improve` to the branch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests import interpreters
from tests.autopilot.code_project import Given, go_around, loaded
from tests.repositories import committed, git

from ratchet.autopilot import Project
from ratchet.types import Run

AGENT = '''"""Sorts parcels."""

import ratchet


@ratchet.evolve
def sort_of(grams: int) -> str:
    """What a parcel is posted as."""
    if grams > 900:
        return "parcel"
    return "letter"


@ratchet.agent
def answer(grams):
    return sort_of(grams)


@ratchet.evaluator
def right(output, expected):
    return float(output == expected)
'''

TESTS = """
import unittest

from parcels import sort_of


class Contract(unittest.TestCase):
    def test_up_to_350_grams_go_as_letters(self):
        self.assertEqual(sort_of(350), "letter")

    def test_a_kilogram_is_a_parcel(self):
        self.assertEqual(sort_of(1000), "parcel")
"""

CONFIG = """
[agent]
entry = "parcels:answer"

[[evaluators]]
use = "parcels:right"

[tasks.split]
train = 0.25
val = 0.15
test = 0.6

[improve]
algorithm = "{algorithm}"

[improve.budget]
rollouts = 240

[run]
concurrency = 2
attempts = 1

[[guardrails]]
metric = "latency"
off = true
"""


def parcels(root: Path, algorithm: str = "auto") -> Path:
    """A repository in which tasks want more than its own tests allow."""
    root.mkdir()
    (root / "parcels.py").write_text(AGENT)
    (root / "test_parcels.py").write_text(TESTS)
    (root / "ratchet.toml").write_text(CONFIG.format(algorithm=algorithm))
    weights = [(n * 37) % 1000 for n in range(160)]
    lines = [
        json.dumps({"input": grams, "expected": "parcel" if grams > 400 else "letter"})
        for grams in weights
    ]
    (root / "tasks.jsonl").write_text("\n".join(lines) + "\n")
    committed(root)
    return root


def ratchet(root: Path, *arguments: str) -> str:
    """What the command prints, in an environment without any key."""
    kept = {k: v for k, v in os.environ.items() if not k.endswith(("_KEY", "_TOKEN"))}
    done = interpreters.run(
        [sys.executable, "-m", "ratchet", *arguments],
        cwd=root,
        env={**kept, "COLUMNS": "200"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "algorithm",
    [
        "auto",
        pytest.param("evolve", marks=pytest.mark.long),
    ],
)
@pytest.mark.long
def test_code_gets_better_without_a_key_as_far_as_its_own_tests_allow(
    tmp_path: Path, algorithm: str
) -> None:
    root = parcels(tmp_path / "project")
    chosen = () if algorithm == "auto" else ("--algorithm", algorithm)
    told = ratchet(root, "improve", "--seed", "100", *chosen)
    assert "Proved better and shipped as a branch." in told
    branch = git(root, "branch", "--format=%(refname:short)").split()[-1]
    git(root, "checkout", "-q", branch)
    tested = subprocess.run([sys.executable, "-m", "unittest"], cwd=root, check=False)
    assert tested.returncode == 0
    request = next((root / ".ratchet" / "releases").glob("*.md")).read_text()
    assert "it passed all of the repository's tests that touch it" in request
    seen: dict[str, Any] = json.loads(ratchet(root, "candidates", "--json"))
    refused = [one for one in seen["candidates"] if one["refused"]]
    assert refused, "more can be had on the tasks than the tests allow"
    # Which of the two, and with what score on its first few tasks, chance decides.
    broken = ("test_up_to_350", "test_a_kilogram")
    assert all(any(name in one["refused"] for name in broken) for one in refused)
    assert all(not one["accepted"] and one["tasks"] <= 6 for one in refused)
    first = refused[0]["candidate_id"]
    assert first != seen["best_id"]
    if algorithm != "auto":
        return  # what people see of it is the same
    assert "fails tests of the repository" in ratchet(root, "candidates")
    shown = ratchet(root, "show", first[:12])
    assert "fails tests of the repository" in shown
    assert "def sort_of" in shown


def test_what_an_algorithm_forgets_to_test_is_not_proved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Forgetful(Given):
        async def learn(self, lab: Any) -> Any:
            lab.check = lab.test = self.nothing
            try:
                return await super().learn(lab)
            finally:
                del lab.check, lab.test

        async def nothing(self, candidate: Any) -> str:
            return ""

    root = parcels(tmp_path / "project", "given")
    with loaded(root):
        agent = Project.find(root).load_agent()
        source = Project.find(root).source_candidate(agent).resources["sort_of"]
    better = str(source.source).replace("900", "300")  # type: ignore[union-attr]
    algorithm = Forgetful({"too light": better}, "sort_of")
    run: Run = go_around(root, algorithm, monkeypatch)
    assert (algorithm.val["too light"] or 0.0) > 0.9
    assert run.stage == "no_gain"
    assert "test_up_to_350_grams_go_as_letters" in run.message
    assert run.best_id == run.baseline_id
