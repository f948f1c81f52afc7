"""A candidate that has to be no worse by a margin, in place of better."""

from __future__ import annotations

import json
import random
from pathlib import Path

import msgspec
import pytest

from ratchet.prove import Comparison, ExperimentPlan, PairedScore, decision, verify, write_evidence
from ratchet.prove.tasks_needed import provable_margin
from ratchet.types import InputError

PLAN = ExperimentPlan(alpha=0.05, min_gain=0.0, margin=0.15, max_pairs=140)


def compared(gain: float, *, plan: ExperimentPlan = PLAN, seed: int = 1) -> Comparison:
    """A comparison of scores of 0 and 1, of which one in five differ, with this mean gain."""
    rng = random.Random(seed)
    comparison = Comparison(plan)
    won, lost = (0.2 + gain) / 2, (0.2 - gain) / 2
    for number in range(plan.max_pairs):
        drawn = rng.random()
        sides = (0.0, 1.0) if drawn < won else (1.0, 0.0) if drawn < won + lost else (1.0, 1.0)
        if comparison.observe(PairedScore(str(number), *sides)) is not None:
            break
    comparison.finish()
    return comparison


def test_a_loss_of_the_margin_is_proved_no_worse_in_at_most_alpha_of_the_cases() -> None:
    wrong = sum(compared(-PLAN.margin, seed=seed).verdict == "promote" for seed in range(200))
    assert wrong / 200 <= 0.05 + 2 * (0.05 * 0.95 / 200) ** 0.5


def test_a_loss_above_the_margin_ends_the_experiment() -> None:
    plan = msgspec.structs.replace(PLAN, margin=0.02)
    comparison = compared(-0.18, plan=plan)
    assert comparison.verdict in ("harm", "futile")
    assert len(comparison.pairs) < plan.max_pairs
    ended = decision(comparison)
    assert "0.02" in ended.sentence
    assert ended.interval[1] < 0.0


def test_the_evidence_states_the_margin_and_is_recomputed_with_it(tmp_path: Path) -> None:
    path = tmp_path / "evidence.json"
    write_evidence(path, compared(0.0), baseline={}, candidate={}, dataset={})
    content = json.loads(path.read_text())
    assert content["schema"] == "ratchet.evidence/5"
    assert content["plan"]["margin"] == content["decision"]["margin"] == 0.15
    assert verify(path).ok
    path.write_text(path.read_text().replace('"margin": 0.15', '"margin": 0.25'))
    assert not verify(path).ok


def test_a_margin_follows_from_the_tasks_that_there_are() -> None:
    margins = [provable_margin(0.05, tasks, 0.1) for tasks in (40, 140, 400, 5_000)]
    assert margins == sorted(margins, reverse=True)
    assert margins[-1] == 0.02
    with pytest.raises(InputError, match="whatever the margin"):
        provable_margin(0.01, 2, 0.1)


def test_better_and_no_worse_exclude_each_other() -> None:
    with pytest.raises(InputError, match="both given"):
        ExperimentPlan(min_gain=0.01, margin=0.1)
