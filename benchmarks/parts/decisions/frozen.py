"""Experiments that frozen sets guard: ten sets, of which one loses half of its tasks, or none.

Scores are right or wrong, and an answer comes out the other way by chance. Of the test tasks the
baseline gets half right; the candidate mends some and breaks fewer. Of a frozen set the baseline
gets every task right but for the noise. Sets, margins and draws are chosen as an experiment chooses
them, and everything is decided by the same `Comparison`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from ratchet.autopilot.frozen_guards import FrozenGuards, choose_guards
from ratchet.prove import Comparison, ExperimentPlan, PairedScore, level
from ratchet.types import FrozenSet, Task

SETS = 10
TASKS = 20
"""Tasks of a set."""
GAIN = 0.1
"""Mean gain on the test tasks, noise included."""
CHANGED = 0.25
"""Share of the test tasks on which baseline and candidate differ, but for the noise."""
AT_ONCE = 4
"""Draws that are run at once."""


@dataclass(frozen=True)
class Guarded:
    """One kind of experiment."""

    name: str
    lost: int = 0
    """Tasks that the candidate loses, of one set."""
    alpha: float | None = None
    """Level; None for the level of all simulations."""
    pairs: int = 400
    """Test tasks, each run once with either candidate."""
    noise: float = 0.1
    """Probability that an answer comes out the other way."""


KINDS = (
    Guarded("equal"),
    Guarded("broken", lost=TASKS // 2),
    Guarded("quarter_lost", lost=TASKS // 4),
    Guarded("equal_200", pairs=200),
    Guarded("broken_200", pairs=200, lost=TASKS // 2),
    Guarded("equal_first", alpha=level(0.05, [])),
    Guarded("broken_first", alpha=level(0.05, []), lost=TASKS // 2),
    Guarded("equal_noise_20", noise=0.2),
    Guarded("broken_noise_20", noise=0.2, lost=TASKS // 2),
)


@dataclass
class GuardedShares:
    """What came of the experiments of one kind."""

    sets: int
    """Frozen sets that guarded each."""
    margin: float
    draws: int
    """Maximum number of draws of all sets together."""
    proved: float
    """Share whose pairs promote the candidate: the power without frozen sets."""
    promoted: float
    proof_rollouts: float
    """Mean, where the pairs promote."""
    frozen_rollouts: float
    """Mean, where the pairs promote."""


def frozen_sets() -> list[FrozenSet]:
    return [
        FrozenSet(
            id=f"set-{number}",
            project="p",
            problem_id=f"problem-{number}",
            title=f"problem {number}",
            tasks=tuple(Task(f"{number}-{task}", task) for task in range(TASKS)),
            loss=1.0 / (1 + number),
            created_at=float(number),
        )
        for number in range(SETS)
    ]


def guarded(
    kind: Guarded, guards: FrozenGuards, alpha: float, rng: np.random.Generator
) -> Comparison:
    """One experiment to its end."""
    comparison = Comparison(ExperimentPlan(alpha=alpha, max_pairs=kind.pairs, frozen=guards.plan))
    net = GAIN / (1.0 - 2.0 * kind.noise)
    truth = rng.random(kind.pairs) < 0.5
    point = rng.random(kind.pairs)
    # Of the changed tasks, wrong ones are mended and right ones broken.
    mended = ~truth & (point < CHANGED + net)
    broken = truth & (point < CHANGED - net)
    after = (truth | mended) & ~broken
    noisy = [side ^ (rng.random(kind.pairs) < kind.noise) for side in (truth, after)]
    for number, (before_score, after_score) in enumerate(zip(*noisy, strict=True)):
        pair = PairedScore(str(number), float(before_score), float(after_score))
        if comparison.observe(pair) is not None or comparison.proved:
            break
    if comparison.proved and comparison.frozen is not None:
        harmed = f"set-{rng.integers(len(comparison.frozen.states))}"
        lost = set(rng.permutation(TASKS)[: kind.lost].tolist())
        while draws := comparison.frozen.next_draws(AT_ONCE):
            for draw in draws:
                is_lost = draw.set_id == harmed and int(draw.task_id.split("-")[1]) in lost
                flips = rng.random(2) < kind.noise
                pair = PairedScore(draw.task_id, float(not flips[0]), float(is_lost == flips[1]))
                if comparison.observe_draw(draw.set_id, pair) is not None:
                    break
    comparison.finish()
    return comparison


def counted(job: tuple[int, int, int, float]) -> GuardedShares:
    """The outcome of so many experiments of a kind."""
    number, runs, seed, usual_alpha = job
    kind = KINDS[number]
    alpha = kind.alpha or usual_alpha
    guards = choose_guards(
        frozen_sets(), alpha=alpha, answered=False, draws=kind.pairs, seed=kind.name
    )
    assert guards.plan is not None
    proved = promoted = 0
    pairs: list[int] = []
    draws: list[int] = []
    for run in range(runs):
        comparison = guarded(kind, guards, alpha, np.random.default_rng([seed, number, run]))
        assert comparison.frozen is not None
        promoted += comparison.verdict == "promote"
        if comparison.proved:
            proved += 1
            pairs.append(len(comparison.pairs))
            draws.append(len(comparison.frozen.order))
    return GuardedShares(
        sets=len(guards.plan.sets),
        margin=guards.plan.sets[0].margin,
        draws=guards.plan.draws,
        proved=proved / runs,
        promoted=promoted / runs,
        proof_rollouts=2.0 * fmean(pairs or [0]),
        frozen_rollouts=2.0 * fmean(draws or [0]),
    )


def report(results: list[GuardedShares], runs: int) -> dict[str, object]:
    by_name = {kind.name: result for kind, result in zip(KINDS, results, strict=True)}
    equal, broken = by_name["equal"], by_name["broken"]
    return {
        "frozen_broken_promoted": broken.promoted,
        "frozen_power": equal.promoted,
        "frozen_power_without": equal.proved,
        "frozen_two_standard_errors": {
            "frozen_broken_promoted": error(broken.promoted, runs),
            "frozen_power": error(equal.promoted, runs),
            "frozen_power_without": error(equal.proved, runs),
        },
        "frozen_kinds": {
            name: {
                "sets": result.sets,
                "margin": result.margin,
                "draws": result.draws,
                "proved": result.proved,
                "promoted": result.promoted,
                "proof_rollouts": round(result.proof_rollouts, 1),
                "frozen_rollouts": round(result.frozen_rollouts, 1),
            }
            for name, result in by_name.items()
        },
        "frozen_runs": runs,
    }


def error(share: float, runs: int) -> float:
    """Two standard errors of a share."""
    return round(2.0 * math.sqrt(share * (1.0 - share) / runs), 4)
