"""How good candidates are when each has run other tasks than the others."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from ratchet.learn.estimate import Estimate


def test_who_met_the_harder_tasks_is_not_the_worse_for_it() -> None:
    estimate = Estimate()
    easy = {f"e{n}": 0.9 for n in range(6)}
    hard = {f"h{n}": 0.1 for n in range(6)}
    estimate.add("base", None, easy | hard)
    estimate.add("on easy", "base", dict.fromkeys(easy, 0.95))
    estimate.add("on hard", "base", dict.fromkeys(hard, 0.4))
    assert estimate.standing("on hard").mean > estimate.standing("on easy").mean


def _solving(hard_too: Sequence[str]) -> Estimate:
    """A source and a child of it that solve what is easy, and two who also solve what is hard."""
    estimate = Estimate()
    easy = [f"e{n}" for n in range(12)]
    hard = [f"h{n}" for n in range(12)]
    source = dict.fromkeys(easy, 1.0) | dict.fromkeys(hard, 0.0)
    estimate.add("base", None, source)
    estimate.add("middling", "base", source | dict.fromkeys(hard[6:], 0.2))
    estimate.add("few", "middling", dict.fromkeys(hard, 1.0))
    estimate.add("many", "middling", dict.fromkeys([*hard, *hard_too], 1.0))
    return estimate


def test_to_solve_the_easy_tasks_as_well_does_not_speak_against_a_candidate() -> None:
    estimate = _solving([f"e{n}" for n in range(12)])
    few, many = estimate.standing("few"), estimate.standing("many")
    assert many.mean > few.mean
    assert many.deviation < few.deviation


def test_the_luckiest_of_many_is_drawn_to_its_parent() -> None:
    rng = random.Random(0)
    estimate = Estimate()
    tasks = [f"t{n}" for n in range(40)]
    estimate.add("base", None, {t: float(rng.random() < 0.5) for t in tasks})
    raw = {}
    for number in range(30):
        scores = {t: float(rng.random() < 0.5) for t in tasks[:6]}
        raw[str(number)] = sum(scores.values()) / 6
        estimate.add(str(number), "base", scores)
    luckiest = max(raw, key=lambda name: raw[name])
    assert raw[luckiest] >= 0.8
    assert estimate.standing(luckiest).mean < raw[luckiest] - 0.1
    assert estimate.standing("base").deviation < estimate.standing(luckiest).deviation


def test_children_tell_how_lucky_their_parent_was() -> None:
    def leader(children: int, mean: float) -> float:
        estimate = Estimate()
        estimate.add("base", None, {f"t{n}": float(n % 2) for n in range(24)})
        estimate.add("leader", "base", {f"t{n}": float(n != 3) for n in range(12)})
        for child in range(children):
            right = round(12 * mean)
            scores = {f"t{n}": float((n + child) % 12 < right) for n in range(12)}
            estimate.add(f"child {child}", "leader", scores)
        return estimate.standing("leader").mean

    alone = leader(0, 0.0)
    assert leader(6, 0.6) < alone - 0.03
    assert leader(6, 0.6) > 0.6
    # Children that broke everything say little of their parent.
    assert leader(6, 0.0) == pytest.approx(alone, abs=0.03)


def test_luck_is_what_a_candidate_scored_above_what_is_expected_of_it() -> None:
    estimate = Estimate()
    estimate.add("base", None, {f"t{n}": float(n % 2) for n in range(24)})
    estimate.add("lucky", "base", {f"t{n}": 1.0 for n in range(6)})
    assert 0.05 < estimate.luck("lucky") < 0.5
    assert estimate.luck("base") == pytest.approx(0.0, abs=0.1)
