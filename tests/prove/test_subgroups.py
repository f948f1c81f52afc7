"""The look at groups: harm is found, chance is not, and the number of groups is bounded."""

from __future__ import annotations

import random

from ratchet.prove.subgroups import MAX_GROUPS, OTHER_GROUPS, Subgroups


def _seen(gains: dict[str, float], count: int, seed: int = 1) -> Subgroups:
    rng = random.Random(seed)
    subgroups = Subgroups(alpha=0.05, horizon=200)
    for _ in range(count):
        for group, gain in gains.items():
            observation = gain + rng.uniform(-0.3, 0.3)
            subgroups.observe(subgroups.name_of(group), observation, 0.5, 0.5 + observation)
    return subgroups


def test_a_harmed_group_is_found_among_others() -> None:
    gains = {f"group {number}": 0.1 for number in range(9)} | {"harmed": -0.2}
    results = _seen(gains, 200).results(paired=True)
    assert [each.group for each in results if each.harmed] == ["harmed"]
    assert [each.group for each in results] == sorted(gains)
    found = results[-1]
    assert (found.count, found.baseline) == (200, 0.5)
    assert found.candidate is not None
    assert 0.25 < found.candidate < 0.35


def test_the_same_evidence_takes_more_in_company() -> None:
    alone = _seen({"worse": -0.09}, 60)
    e_value = alone.results(paired=True)[0].e_value
    assert 20.0 <= e_value < 400.0
    assert alone.results(paired=True)[0].harmed
    crowd = _seen({"worse": -0.09} | {f"g{n}": 0.2 for n in range(20)}, 0)
    for group in [f"g{n}" for n in range(20)]:
        crowd.observe(group, 0.1, 0.5, 0.6)
    crowd.groups |= alone.groups
    assert not any(each.harmed for each in crowd.results(paired=True))


def test_among_groups_without_harm_one_is_seldom_called_harmed() -> None:
    called = 0
    for seed in range(60):
        results = _seen({f"g{n}": 0.0 for n in range(5)}, 80, seed).results(paired=True)
        called += any(each.harmed for each in results)
    assert called <= 6


def test_late_groups_are_counted_together() -> None:
    subgroups = Subgroups(alpha=0.05, horizon=100)
    for number in range(MAX_GROUPS + 30):
        subgroups.observe(subgroups.name_of(f"g{number}"), 0.1, 0.5, 0.6)
    assert len(subgroups.groups) == MAX_GROUPS + 1
    assert subgroups.groups[OTHER_GROUPS].baseline.count == 30
    assert subgroups.name_of("g5") == "g5"
