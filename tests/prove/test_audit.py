"""A judge's gain needs people's labels: without them nothing is promoted, with them it is."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path

import pytest

from ratchet.prove import (
    Comparison,
    ExperimentPlan,
    PairedScore,
    decision,
    drawn_pairs,
    drawn_repetition,
    verify,
    write_evidence,
)
from ratchet.types import InputError

PLAN = ExperimentPlan(max_pairs=200, labels=50)
DRAWN = drawn_pairs(PLAN)


def judged(
    plan: ExperimentPlan,
    gain: float,
    *,
    bias: float = 0.0,
    seed: int = 0,
    labelled: int = 10_000,
    without: frozenset[int] = frozenset(),
) -> Comparison:
    """An experiment with labels of the first so many drawn pairs, except some."""
    rng = random.Random(seed)
    comparison = Comparison(plan)
    drawn = {number: place for place, number in enumerate(drawn_pairs(plan))}
    for number in range(plan.max_pairs):
        before = rng.random() * 0.5
        after = min(1.0, max(0.0, before + gain + rng.uniform(-0.2, 0.2)))
        place = drawn.get(number, 10_000)
        labels = (before, after) if place < labelled and place not in without else None
        score = min(1.0, after + bias)
        if comparison.observe(PairedScore(str(number), before, score, labels=labels)) is not None:
            break
    comparison.finish()
    return comparison


def test_one_pair_of_each_block_is_drawn_and_the_draw_depends_on_the_seed_alone() -> None:
    assert len(DRAWN) == 50
    assert all(number // 4 == place for place, number in enumerate(DRAWN))
    assert drawn_pairs(ExperimentPlan(max_pairs=200, labels=50)) == DRAWN
    assert drawn_pairs(ExperimentPlan(max_pairs=200, labels=50, seed=1)) != DRAWN
    uneven = drawn_pairs(ExperimentPlan(max_pairs=73, labels=20))
    assert all(a < b for a, b in pairwise(uneven))
    assert drawn_pairs(ExperimentPlan(max_pairs=73)) == ()
    places = {number % 4 for number in DRAWN}
    assert places == {0, 1, 2, 3}
    repeated = ExperimentPlan(max_pairs=200, labels=50, repetitions=3)
    assert {drawn_repetition(repeated, number) for number in DRAWN} == {0, 1, 2}


def test_without_labels_a_judges_gain_is_not_promoted_and_all_pairs_are_run() -> None:
    comparison = judged(PLAN, 0.2, labelled=0)
    assert comparison.verdict == "unconfirmed"
    assert len(comparison.pairs) == 200
    assert comparison.audit is not None
    assert comparison.audit.waiting == 50
    assert judged(ExperimentPlan(max_pairs=200), 0.2).verdict == "promote"


def test_labels_that_show_the_gain_promote_and_some_may_suffice() -> None:
    comparison = judged(PLAN, 0.2)
    found = decision(comparison)
    assert found.verdict == "promote"
    assert found.labelled is not None
    assert (found.labelled.labelled, found.labelled.confirmed) == (50, True)
    assert found.labelled.gain == pytest.approx(0.2, abs=0.03)
    assert found.labelled.interval is not None
    assert found.labelled.interval[0] < 0.2 < found.labelled.interval[1]
    assert "People's labels of 50 random pairs prove it" in found.sentence
    early = judged(PLAN, 0.2, labelled=40)
    assert early.verdict == "promote"
    assert early.audit is not None
    assert early.audit.waiting == 0


def test_a_gain_that_only_the_judge_sees_is_unconfirmed_and_its_bias_is_named() -> None:
    comparison = judged(PLAN, 0.0, bias=0.1)
    found = decision(comparison)
    assert found.verdict == "unconfirmed"
    assert found.labelled is not None
    assert found.labelled.judge_bias == pytest.approx(0.1, abs=0.01)
    assert comparison.audit is not None
    assert comparison.audit.waiting == 0
    assert found.sentence.startswith("Better by the judge's scores alone")
    assert "do not prove it" in found.sentence


def test_a_biased_judge_promotes_falsely_no_more_often_than_alpha() -> None:
    plan = ExperimentPlan(alpha=0.05, max_pairs=120, labels=40)
    promoted = sum(
        judged(plan, 0.0, bias=0.1, seed=seed).verdict == "promote" for seed in range(150)
    )
    assert promoted <= 0.05 * 150 + 2


def test_a_pair_that_people_pass_over_counts_against_the_candidate() -> None:
    few = judged(PLAN, 0.2, without=frozenset({1}))
    many = judged(PLAN, 0.2, without=frozenset(range(0, 50, 5)))
    assert (few.verdict, many.verdict) == ("promote", "unconfirmed")
    assert decision(few).labelled.e_value != decision(judged(PLAN, 0.2)).labelled.e_value
    assert "1 drawn pair was not labelled" in decision(few).sentence


def test_evidence_with_labels_is_verified_and_an_altered_label_is_found(tmp_path: Path) -> None:
    path = tmp_path / "evidence.json"
    write_evidence(path, judged(PLAN, 0.2), baseline={}, candidate={}, dataset={})
    assert verify(path).ok
    content = json.loads(path.read_text())
    assert content["schema"] == "ratchet.evidence/4"
    row = content["pairs"][DRAWN[0]]
    row["labels"][1] = 0.0
    path.write_text(json.dumps(content))
    findings = verify(path).findings
    assert any("e-value of labels" in finding for finding in findings)


def test_evidence_of_labelled_repetitions_is_verified(tmp_path: Path) -> None:
    plan = ExperimentPlan(max_pairs=30, labels=20, repetitions=2)
    comparison = Comparison(plan)
    drawn = drawn_pairs(plan)
    for number in range(30):
        runs = [PairedScore(str(number), 0.1, 0.9), PairedScore(str(number), 0.2, 0.8)]
        pair = PairedScore.of_repetitions(runs)
        labels = (0.0, 1.0) if number in drawn else None
        comparison.observe(
            PairedScore(
                pair.task_id,
                pair.baseline,
                pair.candidate,
                repetitions=pair.repetitions,
                labels=labels,
            )
        )
    assert comparison.verdict == "promote"
    path = tmp_path / "evidence.json"
    write_evidence(path, comparison, baseline={}, candidate={}, dataset={})
    assert verify(path).ok


def test_bad_labels_are_refused_by_task() -> None:
    with pytest.raises(InputError, match=r"'t': the labels .* are not between 0 and 1"):
        PairedScore("t", 0.0, 1.0, labels=(0.0, 1.5))
    with pytest.raises(InputError, match="'t': label 'yes' is not a number"):
        PairedScore("t", 0.0, 1.0, labels=("yes", 1.0))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="labels = 30 is not between 0 and max_pairs = 20"):
        ExperimentPlan(max_pairs=20, labels=30)
