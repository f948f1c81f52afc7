"""Evidence of repetitions: every run's score is in it, and none can be altered."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.prove.test_evidence import caught, get, leaves, put

from ratchet.prove import ExperimentPlan, Guardrail, PairedScore, verify, write_evidence
from ratchet.prove.comparison import replay
from ratchet.prove.evidence import digest_of, render
from ratchet.types import VerificationError


@pytest.fixture(scope="module")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    rng = random.Random(4)
    plan = ExperimentPlan(
        guardrails=(Guardrail("cost", 0.5, aggregate="relative"),), max_pairs=20, repetitions=3
    )
    pairs = [
        PairedScore.of_repetitions(
            [
                PairedScore(
                    f"q{task}",
                    None if (task, run) in ((2, 1), (5, 0)) else rng.random() / 2,
                    None if task == 6 else 0.3 + rng.random() / 2,
                    {"cost": (rng.uniform(1, 2), rng.uniform(1, 2))},
                    ("candidate",) if task == 6 else ("baseline",) if (task, run) == (5, 0) else (),
                    f"b{task}/{run}",
                    f"c{task}/{run}",
                )
                for run in range(3)
            ]
        )
        for task in range(20)
    ]
    path = tmp_path_factory.mktemp("evidence") / "evidence.json"
    write_evidence(path, replay(plan, pairs), baseline={}, candidate={}, dataset={})
    assert verify(path).ok
    return dict(json.loads(path.read_text()))


def altered(path: Path, content: dict[str, Any]) -> Path:
    """The content with a digest that fits it."""
    path.write_text(render({**content, "digest": digest_of(content)}))
    return path


def test_every_repetition_is_in_the_file_with_its_rollouts(repeated: dict[str, Any]) -> None:
    assert repeated["schema"] == "ratchet.evidence/4"
    assert repeated["plan"]["repetitions"] == repeated["decision"]["repetitions"] == 3
    row = repeated["pairs"][0]
    scores = [run["baseline"] for run in row["repetitions"]]
    assert row["baseline"] == pytest.approx(sum(scores) / 3)
    assert [run["rollouts"] for run in row["repetitions"]] == [
        [f"b0/{run}", f"c0/{run}"] for run in range(3)
    ]
    assert repeated["counts"]["missing"] == 1, "of task 2, a repetition is unknown"


def test_an_altered_repetition_is_named_by_the_mean_that_no_longer_follows(
    repeated: dict[str, Any], tmp_path: Path
) -> None:
    changed = put(repeated, ("pairs", 1, "repetitions", 2, "candidate"), 1.0)
    finding = verify(altered(tmp_path / "e.json", changed)).findings[0]
    assert finding.startswith("pair 2 (task q1): candidate: 0.")


@pytest.mark.parametrize("keep", [slice(0, 2), slice(0, 0), slice(0, 4)])
def test_a_repetition_more_or_less_is_refused(
    repeated: dict[str, Any], tmp_path: Path, keep: slice
) -> None:
    runs = repeated["pairs"][3]["repetitions"]
    changed = put(repeated, ("pairs", 3, "repetitions"), [*runs, runs[0]][keep])
    with pytest.raises(VerificationError, match="pair 4 does not have the 3 repetitions"):
        verify(altered(tmp_path / "e.json", changed))


@pytest.mark.parametrize("run", [3, None, {}, {"rollouts": ["b"]}])
def test_a_malformed_repetition_is_refused_in_a_sentence(
    repeated: dict[str, Any], tmp_path: Path, run: object
) -> None:
    changed = put(repeated, ("pairs", 3, "repetitions", 0), run)
    with pytest.raises(VerificationError, match="pair 4: "):
        verify(altered(tmp_path / "e.json", changed))


@given(data=st.data())
def test_any_single_altered_number_is_caught(
    repeated: dict[str, Any], tmp_path: Path, data: st.DataObject
) -> None:
    rows = repeated["pairs"]
    numbers = [at for at in leaves(rows) if isinstance(get(rows, at), float)]
    at = ("pairs", *data.draw(st.sampled_from(numbers)))
    changed = put(repeated, at, get(repeated, at) * 0.875 + 0.0625)
    if get(changed, at) != get(repeated, at):
        assert caught(altered(tmp_path / "e.json", changed)), at


@pytest.mark.parametrize("older", ["ratchet.evidence/1", "ratchet.evidence/2"])
def test_a_file_cannot_choose_an_older_rule_for_what_is_missing(
    repeated: dict[str, Any], tmp_path: Path, older: str
) -> None:
    assert caught(altered(tmp_path / "e.json", {**repeated, "schema": older}))
    skipping = {**repeated, "plan": {**repeated["plan"], "missing": "skip"}}
    assert caught(altered(tmp_path / "e.json", skipping))


@pytest.mark.parametrize(
    ("number", "pairs", "missing"), [(1, 12, "skipped"), (2, 54, "skipped"), (3, 60, "skipped")]
)
def test_a_file_of_an_older_layout_verifies_by_the_rule_of_its_time(
    number: int, pairs: int, missing: str
) -> None:
    found = verify(Path(__file__).with_name(f"evidence_{number}.json")).require()
    assert found.pairs == pairs
    assert found.decision.verdict == "promote" or number == 1
    assert missing in found.decision.sentence
