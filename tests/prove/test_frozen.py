"""Frozen sets: margins that hold, draws that a seed fixes, evidence that verifies."""

from __future__ import annotations

import copy
import json
import math
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ratchet.prove import Comparison, ExperimentPlan, PairedScore, decision, verify, write_evidence
from ratchet.prove.evidence import digest_of
from ratchet.prove.frozen_margin import (
    MAX_FROZEN_MARGIN,
    MIN_FROZEN_MARGIN,
    affordable_sets,
    draws_of_one,
    fewest_draws,
    frozen_margin,
    most_noise,
)
from ratchet.prove.frozen_plan import FrozenGuardrail, FrozenPlan
from ratchet.types import InputError, VerificationError

ALPHA = 0.05
LONGER = ((3, 100), (10, 300))
EXPERIMENTS = 300 if os.environ.get("RATCHET_LONG_FAULTS") else 100


def guardrail(name: str, *, margin: float = 0.35, draws: int = 60) -> FrozenGuardrail:
    return FrozenGuardrail(
        set_id=name, problem_id=f"p-{name}", title=name, version=1,
        tasks=tuple(f"{name}{n}" for n in range(20)), margin=margin, draws=draws, seed=f"s-{name}",
    )  # fmt: skip


def planned(*names: str, draws: int = 200, **changes: Any) -> ExperimentPlan:
    sets = tuple(guardrail(name, **changes) for name in names)
    frozen = FrozenPlan(sets=sets, draws=draws, noise=0.15)
    return ExperimentPlan(alpha=ALPHA, max_pairs=100, frozen=frozen)


def proved(plan: ExperimentPlan) -> Comparison:
    """A comparison whose pairs promote the candidate."""
    comparison = Comparison(plan)
    for number in range(100):
        assert comparison.observe(PairedScore(str(number), 0.0, 1.0)) is None
        if comparison.proved:
            return comparison
    raise AssertionError("never promoted")


def draw_all(comparison: Comparison, rng: random.Random, loss: float, noise: float) -> None:
    """Run all draws; the candidate loses so much on set "a", in the mean."""
    assert comparison.frozen is not None
    while draws := comparison.frozen.next_draws(4):
        for draw in draws:
            is_lost = draw.set_id == "a" and rng.random() < loss / (1.0 - 2.0 * noise)
            before, after = rng.random() >= noise, (rng.random() >= noise) != is_lost
            pair = PairedScore(draw.task_id, float(before), float(after))
            if comparison.observe_draw(draw.set_id, pair) is not None:
                break


def test_nothing_is_drawn_before_the_pairs_promote_nor_after_the_verdict() -> None:
    comparison = Comparison(planned("a"))
    draw = PairedScore(guardrail("a").drawn(0), 1.0, 1.0)
    with pytest.raises(InputError, match="before the pairs were decided"):
        comparison.observe_draw("a", draw)
    comparison = proved(planned("a"))
    with pytest.raises(InputError, match="after the verdict 'promote'"):
        comparison.observe(PairedScore("later", 0.0, 1.0))
    draw_all(comparison, random.Random(1), 0.0, 0.0)
    assert comparison.verdict == "promote"
    with pytest.raises(InputError, match="came after the verdict"):
        comparison.observe_draw("a", draw)


def test_a_draw_of_another_set_or_task_is_refused() -> None:
    comparison = proved(planned("a"))
    with pytest.raises(InputError, match="no frozen set 'b'"):
        comparison.observe_draw("b", PairedScore("b0", 1.0, 1.0))
    other = next(task for task in guardrail("a").tasks if task != guardrail("a").drawn(0))
    with pytest.raises(InputError, match="but its seed draws"):
        comparison.observe_draw("a", PairedScore(other, 1.0, 1.0))


def test_sets_that_were_not_run_to_their_end_do_not_promote() -> None:
    assert proved(planned("a")).finish() == "guardrail"


def test_a_set_that_cannot_pass_any_more_ends_the_draws_of_all() -> None:
    comparison = proved(planned("a", "b"))
    draw_all(comparison, random.Random(1), 0.8, 0.1)
    assert comparison.verdict == "guardrail"
    assert comparison.frozen is not None
    lost, kept = comparison.frozen.results()
    assert (lost.passed, kept.passed) == (False, True)
    assert kept.draws < lost.draws == 60
    assert comparison.frozen.next_draws(4) == []


def test_all_sets_together_take_no_more_draws_than_planned() -> None:
    comparison = proved(planned("a", "b", "c", draws=31))
    draw_all(comparison, random.Random(1), 0.0, 0.4)
    assert comparison.frozen is not None
    assert len(comparison.frozen.order) == 31
    assert comparison.verdict == "guardrail"


def test_draws_are_with_replacement_and_each_task_is_as_likely() -> None:
    drawn = [guardrail("a").drawn(number) for number in range(4000)]
    counts = Counter(drawn)
    assert len(counts) == 20
    assert all(140 < count < 260 for count in counts.values())
    assert len(set(drawn[:20])) < 20


def test_a_missing_score_is_the_largest_worsening_whichever_side_lacks_it() -> None:
    values = []
    for sides in ((None, 1.0), (1.0, None), (None, None), (1.0, 0.0)):
        comparison = proved(planned("a"))
        comparison.observe_draw("a", PairedScore(guardrail("a").drawn(0), *sides))
        assert comparison.frozen is not None
        values.append(comparison.frozen.states["a"].process.value)
    assert len(set(values)) == 1


@pytest.mark.parametrize(
    ("sets", "draws"), [(1, 40), *(pytest.param(*long, marks=pytest.mark.long) for long in LONGER)]
)
def test_equal_candidates_pass_all_sets_with_a_probability_of_095_at_the_most_noise(
    sets: int, draws: int
) -> None:
    assert affordable_sets(sets, alpha=ALPHA, draws=draws) == sets
    margin = frozen_margin(sets, alpha=ALPHA, draws=draws)
    most = draws_of_one(sets, margin, alpha=ALPHA, draws=draws)
    names = [chr(ord("a") + number) for number in range(sets)]
    frozen = FrozenPlan(
        sets=tuple(guardrail(name, margin=margin, draws=most) for name in names),
        draws=draws,
        noise=most_noise(margin),
    )
    plan = ExperimentPlan(alpha=ALPHA, max_pairs=100, frozen=frozen)
    rng = random.Random(5)
    promoted = {}
    for loss in (0.0, margin):
        promoted[loss] = 0
        for _ in range(EXPERIMENTS):
            comparison = proved(plan)
            draw_all(comparison, rng, loss, most_noise(margin))
            promoted[loss] += comparison.finish() == "promote"
    noise = 3.0 * math.sqrt(ALPHA * (1.0 - ALPHA) / EXPERIMENTS)
    assert promoted[0.0] / EXPERIMENTS >= 1.0 - ALPHA - noise
    assert promoted[margin] / EXPERIMENTS <= ALPHA + noise


def test_more_draws_hold_more_sets_and_smaller_margins() -> None:
    counts = [affordable_sets(10, alpha=ALPHA, draws=draws) for draws in (8, 25, 72, 120, 200)]
    assert counts == [0, 1, 3, 6, 10]
    margins = [frozen_margin(1, alpha=ALPHA, draws=draws) for draws in (25, 72, 200)]
    assert MIN_FROZEN_MARGIN < margins[2] < margins[1] < margins[0] <= MAX_FROZEN_MARGIN
    fewest = fewest_draws(alpha=ALPHA)
    assert affordable_sets(1, alpha=ALPHA, draws=fewest) == 1
    assert affordable_sets(1, alpha=ALPHA, draws=fewest - 10) == 0


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    comparison = proved(planned("a", "b"))
    draw_all(comparison, random.Random(2), 0.4, 0.1)
    comparison.finish()
    path = tmp_path_factory.mktemp("evidence") / "evidence.json"
    write_evidence(path, comparison, baseline={}, candidate={}, dataset={})
    assert verify(path).decision == decision(comparison)
    return dict(json.loads(path.read_text()))


def altered(content: dict[str, Any], path: Path) -> Path:
    """The content in a file, with a digest that fits."""
    content["digest"] = digest_of(content)
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    "key", ["draw", "set", "task", "baseline", "candidate", "missing", "failed", "e_value"]
)
def test_no_field_of_a_draw_can_be_altered(
    written: dict[str, Any], tmp_path: Path, key: str
) -> None:
    content = copy.deepcopy(written)
    row = content["draws"][1]
    others = {
        "draw": 9, "set": "a" if row["set"] == "b" else "b", "task": "b9", "baseline": 0.25,
        "candidate": 0.25, "missing": True, "failed": ["candidate"], "e_value": 1.5,
    }  # fmt: skip
    row[key] = others[key]
    path = altered(content, tmp_path / "evidence.json")
    try:
        found = verify(path).findings
    except VerificationError as error:
        found = (error.message,)
    assert found


def test_no_draw_can_be_dropped_added_or_hidden(written: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "evidence.json"
    for change in ("drop", "add", "hide", "forget"):
        content = copy.deepcopy(written)
        if change == "drop":
            del content["draws"][-1]
        elif change == "add":
            content["draws"].append(content["draws"][-1])
        elif change == "hide":
            del content["draws"]
        else:
            del content["plan"]["frozen"]
        try:
            findings = verify(altered(content, path)).findings
        except VerificationError as error:
            findings = (error.message,)
        assert findings, change


def test_an_experiment_without_frozen_sets_keeps_its_layout(tmp_path: Path) -> None:
    comparison = Comparison(ExperimentPlan(alpha=ALPHA, max_pairs=100))
    while comparison.verdict is None:
        comparison.observe(PairedScore(str(len(comparison.pairs)), 0.0, 1.0))
    path = tmp_path / "evidence.json"
    write_evidence(path, comparison, baseline={}, candidate={}, dataset={})
    content = json.loads(path.read_text())
    assert content["schema"] == "ratchet.evidence/4"
    assert "frozen" not in content["plan"]
    assert "frozen" not in content["decision"]
    assert "draws" not in content


@pytest.mark.parametrize(
    "changes",
    [{"margin": 0.0}, {"margin": 1.0}, {"draws": 0}, {"tasks": ()}, {"tasks": ("t", "t")}],
)
def test_a_plan_that_is_out_of_range_is_refused(changes: dict[str, Any]) -> None:
    fields = {
        "set_id": "a", "problem_id": "p", "title": "t", "version": 1, "tasks": ("t",),
        "margin": 0.3, "draws": 10, "seed": "s", **changes,
    }  # fmt: skip
    with pytest.raises(InputError):
        FrozenGuardrail(**fields)
    with pytest.raises(InputError, match="given twice"):
        FrozenPlan(sets=(guardrail("a"), guardrail("a")), draws=10, noise=0.1)
