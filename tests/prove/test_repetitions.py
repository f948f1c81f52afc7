"""Repetitions: pairs of means, how many are chosen, and what holds whatever their number."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from ratchet.prove import (
    Comparison,
    ExperimentPlan,
    PairedScore,
    PilotTask,
    choose_repetitions,
    may_repeat,
)
from ratchet.prove.comparison import replay
from ratchet.types import InputError

PLAN = ExperimentPlan(max_pairs=40)

Chance = Callable[[random.Random], tuple[float, float]]
"""Draws a task: the probabilities with which baseline and candidate solve it."""


def gain(by: float) -> Chance:
    def draw(rng: random.Random) -> tuple[float, float]:
        chance = rng.uniform(0.25, 0.6)
        return chance, chance + by

    return draw


def uneven(rng: random.Random) -> tuple[float, float]:
    """Equal on the average of tasks, though no task is equal."""
    chance = rng.uniform(0.3, 0.7)
    return chance, chance + (0.3 if rng.random() < 0.5 else -0.3)


def pair(rng: random.Random, task: str, chances: tuple[float, float], runs: int) -> PairedScore:
    answers = [[float(rng.random() < chance) for chance in chances] for _ in range(runs)]
    return PairedScore.of_repetitions([PairedScore(task, b, c) for b, c in answers])


def pilot(seed: int, chance: Chance, tasks: int = 20) -> list[PilotTask]:
    rng = random.Random(f"pilot {seed}")
    found = []
    for _ in range(tasks):
        before, after = chance(rng)
        one, two, other = (float(rng.random() < p) for p in (before, before, after))
        found.append(PilotTask((one, two), other))
    return found


def promoted(chance: Chance, runs: int | None, experiments: int = 40) -> float:
    """Share of promotions; `runs` None chooses them, by one of five pilots."""
    chosen = [runs or choose_repetitions(PLAN, pilot(seed, chance), 25).count for seed in range(5)]
    count = 0
    for seed in range(experiments):
        rng = random.Random(seed)
        times = chosen[seed % 5]
        plan = ExperimentPlan(max_pairs=40, repetitions=times)
        pairs = (pair(rng, str(t), chance(rng), times) for t in range(40))
        count += replay(plan, pairs).verdict == "promote"
    return count / experiments


def test_a_pair_of_repetitions_compares_means_and_keeps_its_parts() -> None:
    parts = [
        PairedScore("q", 0.25, 1.0, {"errors": (0.0, 0.0), "cost": (1.0, None)}, (), "b0", "c0"),
        PairedScore("q", 0.75, None, {"errors": (0.0, 1.0), "cost": (2.0, 1.0)}, ("candidate",)),
    ]
    both = PairedScore.of_repetitions(parts)
    assert (both.task_id, both.baseline, both.candidate) == ("q", 0.5, 0.5)
    assert both.metrics == {"errors": (0.0, 0.5), "cost": (1.5, None)}
    assert both.repetitions == tuple(parts)
    assert PairedScore.of_repetitions(parts[:1]) is parts[0]


def test_a_mean_with_an_unknown_score_is_unknown_and_never_a_zero() -> None:
    plan = ExperimentPlan(max_pairs=10, min_pairs=1, repetitions=2)
    known, unknown = PairedScore("q", 0.5, 1.0), PairedScore("q", 0.5, None)
    comparison = replay(plan, [PairedScore.of_repetitions([known, unknown])])
    assert (comparison.scored, comparison.missing) == (0, 1)
    assert comparison.pairs[0].baseline == 0.5
    assert comparison.pairs[0].candidate is None


@pytest.mark.parametrize(("planned", "made"), [(3, 2), (1, 2), (2, 1)])
def test_a_pair_with_another_number_of_repetitions_is_refused(planned: int, made: int) -> None:
    comparison = Comparison(ExperimentPlan(repetitions=planned))
    with pytest.raises(InputError, match=f"has {made} repetitions; the plan says {planned}"):
        comparison.observe(PairedScore.of_repetitions([PairedScore("q", 0.5, 0.5)] * made))


@pytest.mark.parametrize("count", [0, 101, True, 2.0])
def test_a_plan_refuses_an_impossible_number(count: int) -> None:
    with pytest.raises(InputError, match="repetitions"):
        ExperimentPlan(repetitions=count)


def test_repetitions_prove_on_few_tasks_what_single_runs_do_not() -> None:
    single, chosen = promoted(gain(0.15), 1), promoted(gain(0.15), None)
    assert single < 0.4
    assert chosen > 0.85


@pytest.mark.parametrize("chance", [gain(0.0), uneven, gain(-0.05)], ids=["equal", "uneven", "bad"])
@pytest.mark.parametrize("runs", [None, 8])
@pytest.mark.long
def test_repetitions_promote_no_more_candidates_that_are_no_better(
    chance: Chance, runs: int | None
) -> None:
    # Three standard errors above 0.05 in 300 experiments.
    assert promoted(chance, runs, experiments=300) <= 0.05 + 3 * (0.05 * 0.95 / 300) ** 0.5


def test_an_agent_that_repeats_itself_runs_once() -> None:
    same = [PilotTask((float(n % 2), float(n % 2)), float(n % 3 == 0)) for n in range(20)]
    chosen = choose_repetitions(PLAN, same, 25)
    assert chosen.count == 1
    assert "equal scores on all of 20 val tasks" in chosen.reason
    assert chosen.sentence.startswith("Each test task is run once with each candidate: two runs")


def test_noise_that_is_small_beside_the_differences_between_tasks_is_left_alone() -> None:
    rng = random.Random(2)
    tasks = []
    for _ in range(40):
        level, change = rng.random(), rng.choice([-0.5, 0.7])
        one, two = (level + rng.gauss(0.0, 0.03) for _ in range(2))
        tasks.append(PilotTask((one, two), level + change))
    chosen = choose_repetitions(PLAN, tasks, 25)
    assert chosen.count == 1
    assert "hardly help" in chosen.reason


def test_enough_tasks_need_no_pilot() -> None:
    noisy = [task.candidate - task.baseline[0] for task in pilot(3, gain(0.15), 60)]
    assert may_repeat(PLAN, noisy, 25)
    assert not may_repeat(ExperimentPlan(max_pairs=800), noisy, 25)


def test_what_cannot_be_measured_or_afforded_runs_once() -> None:
    noisy = pilot(1, gain(0.15))
    differences = [task.candidate - task.baseline[0] for task in noisy]
    assert choose_repetitions(PLAN, noisy, 25).count > 1
    assert choose_repetitions(PLAN, noisy[:4], 25).count == 1
    assert choose_repetitions(PLAN, noisy, 1).count == 1
    assert not may_repeat(PLAN, differences[:4], 25)
    assert not may_repeat(PLAN, differences, 1)


@pytest.mark.parametrize("most", [2, 5, 7, 25])
def test_no_more_are_chosen_than_can_be_afforded(most: int) -> None:
    chosen = choose_repetitions(PLAN, pilot(1, gain(0.05)), most)
    assert 1 < chosen.count <= most
