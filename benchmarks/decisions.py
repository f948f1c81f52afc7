"""Measures how often decisions are wrong, and how soon they are right, in simulated experiments.

Every experiment uses `ratchet.prove.Comparison`, evaluated after each pair, with the stops for harm
and futility. Scores are in [0, 1], with standard deviation 0.2 and a correlation of 0.6 between
baseline and candidate. The same pairs go to a z-test evaluated after each pair and to the
asymptotic confidence sequence of Waudby-Smith et al. (2024).

The scenarios few_tasks have 40 test tasks and an agent whose answers vary from call to call; see
`parts/decisions/few_tasks.py`.

The gates of other tools decide on the same scores as ours, with 30, 60 and 120 tasks and with
scores missing (`parts/decisions/field.py`), and on answers that a real model gave
(`real_aa.py`). Other experiments lose scores where that helps a wrong verdict most
(`parts/decisions/missing_scores.py`).

Ten frozen sets guard experiments of which one loses half of a set's tasks, or none
(`parts/decisions/frozen.py`).

Whole runs in small say what the gate before the proof lets through, and what proofs of candidates
without a gain cost, beside the older gate, which looked at val alone (`parts/decisions/gate.py`).

Progress goes to stderr. The last line of stdout is one JSON object. The exit code is 0 when every
bound holds, 1 when one is missed and 2 when nothing could be measured.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist
from typing import TypeVar

import numpy as np

from parts.decisions import field as gate_field
from parts.decisions import frozen, gate, missing_scores
from parts.decisions.drawn_answers import ALPHA, RESULTS, flips, read_answers
from parts.decisions.few_tasks import FewTasks, few_tasks
from parts.decisions.paired_scores import graded
from ratchet.prove import (
    Comparison,
    ExperimentPlan,
    Guardrail,
    PairedScore,
    decision,
    level,
    verify,
    write_evidence,
)

PAIRS = 1000
MARGIN = 0.03
NORMAL = NormalDist()
FIRST_LOOK = 10
"""Pairs before which no method may promote."""
FEW_RUNS = 500
"""Experiments at most of a scenario on few tasks: each has a pilot, which takes its time."""

Array = np.ndarray
Share = TypeVar("Share")


@dataclass(frozen=True)
class Scenario:
    """One kind of experiment, repeated."""

    name: str
    gain: float = 0.0
    safety: float | None = None
    """Change of the guarded score, or None without a guardrail."""
    null: str = ""
    """How an adversary draws the differences, instead of noisy scores."""
    min_gain: float = 0.01
    peers: bool = False
    """Whether the other methods get the same pairs."""
    few: FewTasks | None = None
    """An experiment on few tasks, instead of one with PAIRS pairs."""

    @property
    def has_intervals(self) -> bool:
        """Whether intervals are computed, for a part of the experiments."""
        return not self.null and self.few is None


SCENARIOS = (
    Scenario("equal", peers=True),
    Scenario("gain_002", gain=0.02, peers=True),
    Scenario("gain_004", gain=0.04, peers=True),
    Scenario("guardrail_equal", gain=0.2, safety=0.0),
    Scenario("guardrail_at_margin", gain=0.2, safety=-MARGIN),
    Scenario("gain_is_min_gain", gain=0.02, min_gain=0.02),
    Scenario("worse_004", gain=-0.04),
    Scenario("null_binary", null="binary"),
    Scenario("null_rare_loss", null="rare_loss"),
    Scenario("null_rare_win", null="rare_win"),
    Scenario("null_heteroscedastic", null="heteroscedastic"),
    Scenario("null_follows_evidence", null="follows_evidence"),
    Scenario("few_tasks", few=FewTasks(gain=0.15)),
    Scenario("few_tasks_single", few=FewTasks(gain=0.15, repetitions=1)),
    Scenario("few_tasks_uneven_gain", few=FewTasks(gain=0.15, spread=0.15)),
    Scenario("few_tasks_first", few=FewTasks(gain=0.15, alpha=level(ALPHA, []))),
    Scenario("few_tasks_first_single", few=FewTasks(0.15, alpha=level(ALPHA, []), repetitions=1)),
    Scenario("few_tasks_same_answers", few=FewTasks(gain=0.15, varies=False)),
    Scenario("few_tasks_null_equal", few=FewTasks()),
    Scenario("few_tasks_null_uneven", few=FewTasks(spread=0.25)),
    Scenario("few_tasks_null_worse", few=FewTasks(gain=-0.05, spread=0.2)),
    Scenario("few_tasks_null_16", few=FewTasks(repetitions=16, spread=0.25)),
)


@dataclass
class Tally:
    """Counts over one scenario's experiments."""

    verdicts: dict[str, int] = field(default_factory=dict)
    pairs: list[int] = field(default_factory=list)
    """Pairs consumed, by experiment."""
    promoted_at: list[int] = field(default_factory=list)
    repetitions: list[int] = field(default_factory=list)
    """Runs of each task with either candidate, by experiment."""
    peers: dict[str, list[int]] = field(default_factory=dict)
    """Pairs at which another method promoted, by method."""
    covered: list[bool] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        for verdict, count in other.verdicts.items():
            self.verdicts[verdict] = self.verdicts.get(verdict, 0) + count
        for method, stops in other.peers.items():
            self.peers.setdefault(method, []).extend(stops)
        self.pairs += other.pairs
        self.promoted_at += other.promoted_at
        self.repetitions += other.repetitions
        self.covered += other.covered
        self.widths += other.widths

    def share(self, verdict: str) -> float:
        return self.verdicts.get(verdict, 0) / len(self.pairs)


def adversary(rng: np.random.Generator, kind: str) -> Callable[[int, float], tuple[float, float]]:
    """Scores of mean difference zero, given the pair's number and the evidence before it."""
    u = rng.random(PAIRS)
    if kind == "binary":
        other = rng.random(PAIRS)
        return lambda t, e: (float(u[t] < 0.3), float(other[t] < 0.3))
    if kind == "rare_loss":
        return lambda t, e: (0.95, 0.0) if u[t] < 0.05 else (0.5, 0.55)
    if kind == "rare_win":
        return lambda t, e: (0.0, 0.95) if u[t] < 0.05 else (0.55, 0.5)
    if kind == "heteroscedastic":
        return lambda t, e: (0.5, 0.5 + (0.5 if (t // 25) % 2 else 0.02) * (2.0 * u[t] - 1.0))
    # Small spread, so that bets grow, until the bettor leads; then a large one.
    return lambda t, e: (0.5, 0.5 + (0.03 if e < 2.0 else 0.4) * (1 if u[t] < 0.5 else -1))


def plan_of(scenario: Scenario) -> ExperimentPlan:
    guardrails = ()
    if scenario.safety is not None:
        guardrails = (Guardrail("safety", margin=MARGIN, lower_is_better=False),)
    return ExperimentPlan(
        alpha=ALPHA,
        min_gain=scenario.min_gain,
        guardrails=guardrails,
        min_pairs=FIRST_LOOK,
        max_pairs=PAIRS,
    )


def experiment(scenario: Scenario, number: int, seed: int, with_interval: bool) -> Tally:
    rng = np.random.default_rng([seed, SCENARIOS.index(scenario), number])
    comparison = Comparison(plan_of(scenario))
    tally = Tally()
    if scenario.few is not None:
        comparison = few_tasks(scenario.few, rng)
        tally.repetitions.append(comparison.plan.repetitions)
    elif scenario.null:
        draw = adversary(rng, scenario.null)
        for t in range(PAIRS):
            before, after = draw(t, comparison.superiority.value)
            if comparison.observe(PairedScore(str(t), before, after)) is not None:
                break
    else:
        before_n, after_n = graded(rng, PAIRS, scenario.gain)
        rows = zip(before_n.tolist(), after_n.tolist(), strict=True)
        if scenario.safety is None:
            for t, (before, after) in enumerate(rows):
                if comparison.observe(PairedScore(str(t), before, after)) is not None:
                    break
        else:
            safe = graded(rng, PAIRS, scenario.safety)
            guarded = zip(safe[0].tolist(), safe[1].tolist(), strict=True)
            for t, ((before, after), metric) in enumerate(zip(rows, guarded, strict=True)):
                pair = PairedScore(str(t), before, after, {"safety": metric})
                if comparison.observe(pair) is not None:
                    break
        if scenario.peers:
            difference = after_n - before_n
            for method, stop in (("naive_z", naive_z), ("asymptotic_cs", asymptotic_cs)):
                promoted = stop(difference)
                tally.peers[method] = [promoted] if promoted else []
    verdict = comparison.finish()
    tally.verdicts[verdict] = 1
    tally.pairs.append(comparison.scored)
    if verdict == "promote":
        tally.promoted_at.append(comparison.scored)
    if with_interval:
        low, high = decision(comparison).interval
        tally.covered.append(low <= scenario.gain <= high)
        tally.widths.append(high - low)
    return tally


def running(difference: Array) -> tuple[Array, Array, Array]:
    """Count, mean and standard deviation after each pair."""
    count = np.arange(1, len(difference) + 1)
    mean = np.cumsum(difference) / count
    variance = np.maximum(np.cumsum(difference**2) / count - mean**2, 1e-12)
    return count, mean, np.sqrt(variance)


def first(crossed: Array) -> int:
    """Number of the first pair, from the first evaluation on, at which it is true; 0 if none."""
    where = np.flatnonzero(crossed[FIRST_LOOK - 1 :])
    return int(where[0]) + FIRST_LOOK if len(where) else 0


def naive_z(difference: Array) -> int:
    """A one-sided z-test at ALPHA, evaluated after every pair as if it were the only one."""
    count, mean, deviation = running(difference)
    return first(mean * np.sqrt(count) / deviation >= NORMAL.inv_cdf(1.0 - ALPHA))


def asymptotic_cs(difference: Array) -> int:
    """One-sided asymptotic confidence sequence, tuned for 300 pairs (Annals of Statistics 2024)."""
    count, mean, deviation = running(difference)
    best = 2.0 * ALPHA
    scale = (-2.0 * math.log(best) + math.log(-2.0 * math.log(best) + 1.0)) / 300
    grown = count * scale + 1.0
    width = np.sqrt(2.0 * grown / (count**2 * scale) * np.log1p(np.sqrt(grown) / (2.0 * ALPHA)))
    return first(mean - deviation * width > 0.0)


def shares(
    function: Callable[[tuple[int, int, int, float]], Share],
    kinds: int,
    runs: int,
    seed: int,
    workers: int,
) -> list[Share]:
    """The function's result for each of so many kinds of experiment, several at once."""
    jobs = [(number, runs, seed, ALPHA) for number in range(kinds)]
    began = time.monotonic()
    with multiprocessing.Pool(workers) as pool:
        results = list(pool.imap(function, jobs))
    print(f"{time.monotonic() - began:5.0f} s  {function.__module__}", file=sys.stderr, flush=True)
    return results


def chunk(job: tuple[int, int, int, int, int]) -> tuple[int, Tally]:
    index, start, stop, seed, intervals = job
    tally = Tally()
    for number in range(start, stop):
        tally.add(experiment(SCENARIOS[index], number, seed, number < intervals))
    return index, tally


def measure(runs: int, seed: int, workers: int) -> dict[str, Tally]:
    intervals = min(runs, max(40, runs // 10))
    step = 25
    jobs = [
        (index, start, min(start + step, count), seed, intervals if scenario.has_intervals else 0)
        for index, scenario in enumerate(SCENARIOS)
        for count in (min(runs, FEW_RUNS) if scenario.few else runs,)
        for start in range(0, count, step)
    ]
    tallies = {scenario.name: Tally() for scenario in SCENARIOS}
    began = time.monotonic()
    with multiprocessing.Pool(workers) as pool:
        # In order, so that the lists do not depend on the number of workers.
        for done, (index, tally) in enumerate(pool.imap(chunk, jobs), start=1):
            tallies[SCENARIOS[index].name].add(tally)
            if done == len(jobs) or jobs[done][0] != index:
                seconds = time.monotonic() - began
                print(f"{seconds:5.0f} s  {SCENARIOS[index].name}", file=sys.stderr, flush=True)
    return tallies


def check_evidence() -> dict[str, object]:
    """Write a decision, verify it, alter the last digit of one score, verify it again."""
    scenario = SCENARIOS[2]
    comparison = Comparison(plan_of(scenario))
    before_n, after_n = graded(np.random.default_rng(0), PAIRS, scenario.gain)
    for t, (before, after) in enumerate(zip(before_n.tolist(), after_n.tolist(), strict=True)):
        if comparison.observe(PairedScore(f"task-{t}", before, after)) is not None:
            break
    comparison.finish()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "evidence.json"
        write_evidence(path, comparison, baseline={}, candidate={}, dataset={})
        began = time.perf_counter()
        intact = verify(path).ok
        seconds = time.perf_counter() - began
        score = comparison.pairs[3].baseline
        assert score is not None
        altered = path.read_text().replace(repr(score), repr(math.nextafter(score, 1.0)), 1)
        path.write_text(altered)
        caught = not verify(path).ok
    return {"evidence_verified": intact, "alteration_caught": caught, "verify_s": round(seconds, 3)}


def speed() -> float:
    """Microseconds per pair in a comparison without guardrails."""
    before_n, after_n = graded(np.random.default_rng(1), PAIRS, 0.0)
    pairs = [
        PairedScore(str(t), b, a)
        for t, (b, a) in enumerate(zip(before_n.tolist(), after_n.tolist(), strict=True))
    ]
    best = math.inf
    for _ in range(20):
        comparison = Comparison(
            ExperimentPlan(max_pairs=PAIRS, futility_alpha=1e-9, harm_alpha=1e-9)
        )
        began = time.perf_counter()
        for pair in pairs:
            if comparison.observe(pair) is not None:
                break
        best = min(best, (time.perf_counter() - began) / len(comparison.path))
    return best * 1e6


def report(tallies: dict[str, Tally], runs: int) -> dict[str, object]:
    equal, small, large = (tallies[name] for name in ("equal", "gain_002", "gain_004"))
    promoted = {name: tally.share("promote") for name, tally in tallies.items()}
    few = {name: tally for name, tally in tallies.items() if name.startswith("few_tasks")}
    adversarial = {name: share for name, share in promoted.items() if name.startswith("null_")}
    peers: dict[str, object] = {}
    for method in ("naive_z", "asymptotic_cs"):
        stops = large.peers[method]
        peers[method] = {
            "false_promotion": len(equal.peers[method]) / runs,
            "power_002": len(small.peers[method]) / runs,
            "power_004": len(stops) / runs,
            "median_pairs_004": statistics.median(stops) if stops else None,
        }
    covered = [c for name in ("equal", "gain_002", "gain_004") for c in tallies[name].covered]
    power = small.share("promote")
    asymptotic = len(small.peers["asymptotic_cs"]) / runs
    naive = len(equal.peers["naive_z"]) / runs
    return {
        "alpha": ALPHA,
        "false_promotion": equal.share("promote"),
        "power_002": power,
        "power_004": large.share("promote"),
        "median_pairs_004": statistics.median(large.promoted_at) if large.promoted_at else None,
        "equal_pass": tallies["guardrail_equal"].share("promote"),
        "margin_pass": tallies["guardrail_at_margin"].share("promote"),
        "median_pairs_002": statistics.median(small.promoted_at) if small.promoted_at else None,
        "median_pairs_equal": statistics.median(equal.pairs),
        "futile_equal": equal.share("futile"),
        "wrongful_harm_equal": equal.share("harm"),
        "wrongful_futile_at_min_gain": tallies["gain_is_min_gain"].share("futile"),
        "power_002_at_min_gain": tallies["gain_is_min_gain"].share("promote"),
        "stopped_worse_004": tallies["worse_004"].share("harm")
        + tallies["worse_004"].share("futile"),
        "promoted_worse_004": tallies["worse_004"].share("promote"),
        "median_pairs_worse_004": statistics.median(tallies["worse_004"].pairs),
        "adversarial_false_promotion": adversarial,
        "few_tasks_power": promoted["few_tasks"],
        "few_tasks_power_single": promoted["few_tasks_single"],
        "few_tasks_power_uneven_gain": promoted["few_tasks_uneven_gain"],
        "few_tasks_power_first": promoted["few_tasks_first"],
        "few_tasks_power_first_single": promoted["few_tasks_first_single"],
        "few_tasks_false_promotion": {
            name.removeprefix("few_tasks_null_"): promoted[name] for name in few if "null" in name
        },
        "few_tasks_median_repetitions": {
            name: statistics.median(tally.repetitions) for name, tally in few.items()
        },
        "few_tasks_mean_rollouts": {
            name: round(
                statistics.mean(
                    2 * pairs * times
                    for pairs, times in zip(tally.pairs, tally.repetitions, strict=True)
                )
            )
            for name, tally in few.items()
        },
        "few_tasks_same_answers_repeated": max(few["few_tasks_same_answers"].repetitions) > 1,
        "interval_coverage": round(sum(covered) / len(covered), 4),
        "interval_median_width_equal": round(statistics.median(equal.widths), 4),
        "peers": peers,
        "power_002_over_asymptotic_cs": round(power / asymptotic, 3) if asymptotic else None,
        "naive_false_promotion_over_alpha": round(naive / ALPHA, 2),
        "runs": runs,
        "few_tasks_runs": min(runs, FEW_RUNS),
        "experiments": sum(len(tally.pairs) for tally in tallies.values()),
    }


def missed(result: dict[str, object], runs: int, slack: float) -> list[str]:
    """Bounds that do not hold, allowing `slack` standard errors of a share.

    An adversary's false promotions, those of many cells, and wrongful stops may come close to their
    level by design, so they are always allowed three standard errors of the simulation, and the
    shares with missing scores two.
    """

    def at_most(
        name: str, value: object, bound: float, slack: float = slack, runs: int = runs
    ) -> list[str]:
        error = slack * math.sqrt(bound * (1.0 - bound) / runs)
        fine = isinstance(value, (int, float)) and value <= bound + error
        return [] if fine else [f"{name} = {value}, expected at most {bound} (+ {error:.4f})"]

    def at_least(name: str, value: object, bound: float) -> list[str]:
        error = slack * math.sqrt(bound * (1.0 - bound) / runs)
        fine = isinstance(value, (int, float)) and value >= bound - error
        return [] if fine else [f"{name} = {value}, expected at least {bound} (- {error:.4f})"]

    found: list[str] = []
    for name in ("false_promotion", "margin_pass"):
        found += at_most(name, result[name], ALPHA)
    for name in ("wrongful_harm_equal", "wrongful_futile_at_min_gain"):
        found += at_most(name, result[name], ALPHA, 3.0)
    for kind, count in (
        ("adversarial_false_promotion", runs),
        ("aa_cells", runs),
        ("few_tasks_false_promotion", min(runs, FEW_RUNS)),
    ):
        shares = result[kind]
        assert isinstance(shares, dict)
        for name, value in shares.items():
            found += at_most(f"{kind}.{name}", value, ALPHA, 3.0, count)
    for name in (
        "aa_ours",
        "real_aa_ours",
        "false_promotion_missing",
        "wrongful_harm_missing",
        "wrongful_futile_missing",
        "random_evaluator_failures",
    ):
        found += at_most(name, result[name], ALPHA, max(slack, 2.0))
    for name in ("gain", "gain_right_or_wrong", "gain_among_losses"):
        found += at_least(f"gate_lets_through.{name}", result[f"gate_lets_through_{name}"], 0.9)
    found += at_most("gate_wasted_share", result["gate_wasted_share"], 0.25)
    found += at_most("gate_false_promotion", result["gate_false_promotion"], ALPHA)
    found += at_least("power_missing", result["power_missing"], 0.75)
    found += at_most("frozen_broken_promoted", result["frozen_broken_promoted"], ALPHA)
    without = result["frozen_power_without"]
    assert isinstance(without, float)
    found += at_least("frozen_power", result["frozen_power"], 0.9 * without)
    # Scores that are missing where the candidate loses must be able to deceive a rule.
    found += at_least("false_promotion_dropped", result["false_promotion_dropped"], 0.5)
    found += at_least("few_tasks_power", result["few_tasks_power"], 0.85)
    found += at_most("few_tasks_power_single", result["few_tasks_power_single"], 0.5)
    if result["few_tasks_same_answers_repeated"]:
        found.append("tasks were repeated although every answer was the same")
    found += at_least("power_002", result["power_002"], 0.70)
    found += at_least("power_004", result["power_004"], 0.99)
    found += at_least("equal_pass", result["equal_pass"], 0.97)
    median = result["median_pairs_004"]
    if not isinstance(median, (int, float)) or median > 270:
        found.append(f"median_pairs_004 = {median}, expected at most 270")
    for name in ("evidence_verified", "alteration_caught"):
        if result[name] is not True:
            found.append(f"{name} is {result[name]}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="60 experiments per scenario instead of 2000, bounds widened by 3 standard errors",
    )
    parser.add_argument("--runs", type=int, help="experiments per scenario")
    parser.add_argument("--seed", type=int, default=0, help="seed of the simulation (default 0)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default 2)")
    options = parser.parse_args()
    runs = options.runs or (60 if options.quick else 2000)
    if runs < 20 or options.workers < 1:
        parser.error("at least 20 runs and 1 worker are needed")
    began = time.monotonic()
    try:
        result = report(measure(runs, options.seed, options.workers), runs)
        simulated = (runs, options.seed, options.workers)
        beside = shares(gate_field.promoted, len(gate_field.CELLS), *simulated)
        result.update(gate_field.report(beside))
        result["aa_cells"] = gate_field.false_promotions(beside)
        result.update(gate.report(shares(gate.counted, len(gate.POPULATIONS), *simulated)))
        unscored = shares(missing_scores.counted, len(missing_scores.SCENARIOS), *simulated)
        result.update(missing_scores.report(unscored))
        guarded = shares(frozen.counted, len(frozen.KINDS), *simulated)
        result.update(frozen.report(guarded, runs))
        result.update(flips(read_answers(RESULTS), runs, options.seed))
        result.update(check_evidence())
        result["us_per_pair"] = round(speed(), 2)
    except Exception as error:
        print(f"could not measure: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    result["seconds"] = round(time.monotonic() - began, 1)
    found = missed(result, runs, slack=3.0 if runs < 2000 else 0.0)
    for line in found:
        print(f"missed: {line}", file=sys.stderr)
    print(json.dumps(result))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
