"""Measures how often shadow, canary and watch decide wrongly in simulation, and how soon rightly.

The stages are those of `ratchet.prove`, for many runs at once (`parts/live_decisions/stages.py`),
looked at after every pair, unit and outcome. Scores of a canary and of a watch are 0 or 1.

False promotions are counted where they are likeliest: without guardrails, and at a candidate that
is exactly as bad as a stage must not let pass. A canary's are the worst over base rates, splits,
and the rules "no worse by 0.03" and "better". In a stream, 20 such candidates share one alpha.

Scores are missing where that helps most (`parts/live_decisions/missing_scores.py`). Candidates of a
canary on feedback are exactly as bad as must not pass, in each of the ways that it tests
(`parts/live_decisions/feedback.py`). Where people fall silent as no test can see, what passes is
counted too, without a bound.

Of a candidate some of whose calls hang, calls are stored as an agent leaves them, and read
(`parts/live_decisions/hangs.py`).

The same units go to a z-test that is looked at after each of them, to the confidence sequence
without waiting for ten successes and failures, and to a mixture of bets of fixed size.

Progress goes to stderr. The last line of stdout is one JSON object. The exit code is 0 when every
bound holds, and 1 when one is missed.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import NormalDist
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np

from parts.live_decisions.feedback import (
    BOUNDED,
    COVERAGES,
    UNBOUNDED,
    Case,
    feedback_power,
    passes,
    silent_bets,
    told_units,
)
from parts.live_decisions.hangs import hanging
from parts.live_decisions.missing_scores import canary_missing, shadow_missing
from parts.live_decisions.stages import (
    HARM,
    HOLD,
    PASS,
    Canaries,
    Ends,
    Shadows,
    Watches,
)
from ratchet._live_calls import LiveCall
from ratchet.observe.call_starts import CallStarts
from ratchet.observe.spool import Spool
from ratchet.prove import (
    CanaryPlan,
    CanaryTest,
    ShadowPlan,
    WatchedMetric,
    WatchPlan,
    WatchTest,
    level,
)
from ratchet.types import LiveOutcome, TrafficSplit, arm_of, unit_digest
from ratchet.types.trace import ARM, CANDIDATE, EXPERIMENT, UNIT

ALPHA = 0.05
BASE_RATES = (0.80, 0.90, 0.95, 0.99)
SHARES = (0.5, 0.1)
"""Of the candidate: 50/50 and 10/90."""
STORED = 100
"""Simulated canaries with hanging calls for each of stored calls."""

RULES = {"no worse": -0.03, "better": 0.0}
"""Largest effect that must not pass."""
Z = NormalDist().inv_cdf(1.0 - ALPHA)
FIXED_BETS = (0.02, 0.05, 0.1, 0.2, 0.4)
"""Of a peer, as shares of the largest observation."""
CANDIDATES = 20
SEED = 20
STEPS = (0.02, 0.1, 0.2, 0.5, 1.0)
"""Shares of enrolled units in a full ramp."""
GROUP_RATES = np.array([0.2, 0.7, 0.98])
"""Base rates of three groups of units, where covariates can help."""


@dataclass(frozen=True)
class Size:
    """How much is simulated."""

    runs: int
    canary_runs: int
    """Of each canary whose false promotions are counted."""
    units: int
    stream_units: int
    pairs: int
    outcomes: int
    assigned: int


FULL = Size(2000, 20_000, 2000, 1000, 1000, 10_000, 1_000_000)
QUICK = Size(400, 3000, 500, 200, 200, 4000, 50_000)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small, as in CI")
    parser.add_argument("--workers", type=int, default=multiprocessing.cpu_count())
    arguments = parser.parse_args()
    size = QUICK if arguments.quick else FULL
    jobs = all_jobs(size)
    began = time.monotonic()
    found: dict[str, Any] = {}
    with multiprocessing.Pool(arguments.workers) as pool:
        for name, value in pool.imap_unordered(_run, [(name, size) for name in jobs]):
            found[name] = value
            seconds = time.monotonic() - began
            print(f"{seconds:5.0f} s  {name}: {value}", file=sys.stderr, flush=True)
    result = report(found, size) | speed()
    missed = bounds_missed(result, size)
    for line in missed:
        print(f"missed: {line}", file=sys.stderr)
    print(json.dumps(result))
    return 1 if missed else 0


def all_jobs(size: Size) -> dict[str, Callable[[Size], Any]]:
    """The measurements by name, the longest first."""
    jobs: dict[str, Callable[[Size], Any]] = {
        "stream of canaries": stream_of_canaries,
        "stream of shadows": stream_of_shadows,
        "assignment": assignment,
    }
    for share, base, rule in product(SHARES, BASE_RATES, RULES):
        jobs[f"canary {share} {base} {rule}"] = lambda size, case=(share, base, rule): false_canary(
            size, *case
        )
    for name, case in (BOUNDED | UNBOUNDED).items():
        jobs[f"feedback, {name}"] = lambda size, name=name, case=case: feedback(size, name, case)
    for coverage in COVERAGES:
        jobs[f"feedback, told at {coverage}"] = lambda size, coverage=coverage: told_units(
            seeded("feedback, told", coverage), size.runs, level(ALPHA, []), coverage
        )
    return jobs | {
        "feedback, silent bets": lambda size: silent_bets(
            seeded("feedback, silent bets"), size.runs, level(ALPHA, [])
        ),
        "feedback, better": lambda size: feedback_power(
            seeded("feedback, better"), size.runs, level(ALPHA, [])
        ),
        "shadow, missing": lambda size: shadow_missing(seeded("shadow, missing"), size.runs, ALPHA),
        "canary, missing": lambda size: canary_missing(
            seeded("canary, missing"), size.runs, ALPHA, size.units
        ),
        "canary, hanging": lambda size: hanging(
            seeded("canary, hanging"), size.runs, ALPHA, max(1, size.runs // STORED)
        ),
        "watch, unchanged": watch_unchanged,
        "watch, worse": lambda size: watch_delay(size, expected=0.9),
        "watch, worse, cautious": lambda size: watch_delay(size, expected=0.88),
        "shadow, worse": lambda size: shadows(size, -0.1),
        "shadow, equal": lambda size: shadows(size, 0.0),
        "shadow, better": lambda size: shadows(size, 0.05),
        "canary, worse": canary_worse,
        "canary, equal": canary_equal,
        "canary with covariates": lambda size: power(size, covariates=True),
        "canary without covariates": lambda size: power(size, covariates=False),
        "sample ratio": sample_ratio,
    }


def _run(job: tuple[str, Size]) -> tuple[str, Any]:
    name, size = job
    return name, all_jobs(size)[name](size)


def seeded(*parts: object) -> np.random.Generator:
    """A generator of its own for each measurement, the same in each process."""
    return np.random.default_rng([SEED, *json.dumps(parts).encode()])


def false_canary(size: Size, share: float, base: float, rule: str) -> dict[str, float]:
    """Canaries of a candidate whose effect is the largest that must not pass."""
    rng = seeded("canary", share, base, rule)
    effect, runs = RULES[rule], size.canary_runs
    plan = CanaryPlan(alpha=ALPHA, min_effect=effect, share=share, max_units=size.units)
    test = Canaries(runs, plan)
    missed, missed_early, z_test = np.zeros((3, runs), bool)
    for _ in range(size.units):
        test.add(*unit(rng, runs, share, base, base + effect))
        low, high, shown = test.interval()
        outside = (effect < low) | (high < effect)
        missed |= shown & outside
        if test.count >= plan.min_units:
            missed_early |= outside
            z_test |= test.difference_over_error(effect) > Z
    return {
        "promoted": test.ends.share(PASS),
        "held": test.ends.share(HOLD),
        "interval missed": float(missed.mean()),
        "interval missed without waiting": float(missed_early.mean()),
        "promoted by a z-test": float(z_test.mean()),
    }


def unit(
    rng: np.random.Generator, runs: int, share: float, base: float, candidate: float
) -> tuple[np.ndarray, np.ndarray]:
    """Score and arm of one unit a run."""
    treated = rng.random(runs) < share
    return (rng.random(runs) < np.where(treated, candidate, base)).astype(float), treated


def feedback(size: Size, name: str, case: Case) -> float:
    """Share of canaries on feedback that pass a candidate which must not."""
    return passes(seeded("feedback", name), size.runs, ALPHA, case)


def canary_worse(size: Size) -> float | None:
    """Median of the units until harm, 0.9 -> 0.8, with one guardrail that is never near its margin.

    The guardrail has half of `harm_alpha`.
    """
    rng = seeded("canary, worse")
    test = Canaries(size.runs, CanaryPlan(harm_alpha=ALPHA / 2.0))
    while (test.ends.verdict == 0).any() and test.count < 3000:
        test.add(*unit(rng, size.runs, test.plan.share, 0.9, 0.8))
    return test.ends.median(HARM)


def canary_equal(size: Size) -> dict[str, float]:
    """Share of equal candidates proved to be no worse by 0.03, as a stream's first."""
    rng = seeded("canary, equal")
    plan = CanaryPlan(alpha=level(ALPHA, []))
    test = Canaries(size.runs, plan)
    wealth, passed = np.ones((len(FIXED_BETS), size.runs)), np.zeros(size.runs, bool)
    margin = -plan.min_effect / test.effect.bound
    for _ in range(plan.max_units):
        gain = test.add(*unit(rng, size.runs, plan.share, 0.9, 0.9))
        wealth *= 1.0 + np.outer(FIXED_BETS, (gain + margin) / (1.0 + margin))
        passed |= wealth.mean(axis=0) >= 1.0 / plan.alpha
    return {"passed": test.ends.share(PASS), "fixed bets": float(passed.mean())}


def power(size: Size, covariates: bool) -> float:
    """Share of better candidates that pass, where units differ in ways that are known before."""
    rng = seeded("power")
    runs = size.runs
    plan = CanaryPlan(alpha=level(ALPHA, []), max_units=size.units)
    test = Canaries(runs, plan, groups=len(GROUP_RATES))
    for _ in range(size.units):
        group = rng.integers(0, len(GROUP_RATES), runs)
        own = np.clip(GROUP_RATES[group] + rng.uniform(-0.2, 0.2, runs), 0.0, 0.98)
        predicted = np.clip(own + rng.uniform(-0.1, 0.1, runs), 0.0, 1.0)
        scores, treated = unit(rng, runs, plan.share, own, own + 0.02)
        if covariates:
            test.add(scores, treated, group, predicted)
        else:
            test.add(scores, treated)
    return test.ends.share(PASS)


def sample_ratio(size: Size) -> dict[str, float | None]:
    """Canaries whose candidate gets 45 % of the units instead of 50 %, and nothing else ends."""
    rng = seeded("sample ratio")
    plan = CanaryPlan(alpha=1e-9, min_effect=0.0, harm_alpha=1e-9, max_units=4000)
    test = Canaries(size.runs, plan)
    for _ in range(plan.max_units):
        treated = rng.random(size.runs) < 0.45
        test.add((rng.random(size.runs) < 0.9).astype(float), treated)
    return {"found": float((test.ends.verdict == HOLD).mean()), "median": test.ends.median(HOLD)}


def shadows(size: Size, gain: float) -> dict[str, float | None]:
    """Shadow stages of a candidate with this gain, differences with a deviation of 0.3."""
    rng = seeded("shadow", gain)
    plan = ShadowPlan(alpha=level(ALPHA, []))
    test = Shadows(size.runs, plan)
    for _ in range(plan.max_pairs):
        test.add(np.clip(rng.normal(gain, 0.3, size.runs), -1.0, 1.0))
        if (test.ends.verdict > 0).all():
            break
    return {
        "passed": test.ends.share(PASS),
        "median to pass": test.ends.median(PASS),
        "harm": test.ends.share(HARM),
        "median to harm": test.ends.median(HARM),
    }


def stream_of_shadows(size: Size) -> dict[str, float]:
    """A stream of candidates that are as bad as the margin, each decided in shadow."""
    rng = seeded("stream of shadows")
    plan = ShadowPlan(max_pairs=size.pairs)

    def decide(needed: np.ndarray) -> Ends:
        test = Shadows(size.runs, plan, needed)
        for _ in range(size.pairs):
            test.add(np.clip(rng.normal(-plan.margin, 0.3, size.runs), -1.0, 1.0))
        return test.ends

    return stream(size, decide)


def stream_of_canaries(size: Size) -> dict[str, float]:
    """A stream of candidates that are as bad as the margin, each decided by a canary."""
    rng = seeded("stream of canaries")
    plan = CanaryPlan(max_units=size.stream_units)

    def decide(needed: np.ndarray) -> Ends:
        test = Canaries(size.runs, plan, needed=needed)
        for _ in range(size.stream_units):
            test.add(*unit(rng, size.runs, plan.share, 0.9, 0.9 + plan.min_effect))
        return test.ends

    return stream(size, decide)


def stream(size: Size, decide: Callable[[np.ndarray], Ends]) -> dict[str, float]:
    """Share of streams in which any of their candidates ships.

    Args:
        size: How much is simulated.
        decide: Decides a candidate of each run, given the e-values needed.
    """
    shipped = np.zeros((size.runs, CANDIDATES), bool)
    inconclusive = 0.0
    for number in range(CANDIDATES):
        levels = [level(ALPHA, history) for history in shipped[:, :number].tolist()]
        ends = decide(1.0 / np.array(levels))
        shipped[:, number] = ends.verdict == PASS
        inconclusive += float(np.mean(ends.verdict == 0)) / CANDIDATES
    # All are false, so the share of false ones among the shipped is 1 as soon as there is one.
    return {"false": float(shipped.any(axis=1).mean()), "inconclusive": inconclusive}


def watch_unchanged(size: Size) -> float:
    """Share of watches with a false alarm, at a mean that is exactly the expected one."""
    rng = seeded("watch, unchanged")
    plan = WatchPlan(metrics=(WatchedMetric(expected=0.9),), alpha=ALPHA, outcomes=size.outcomes)
    test = Watches(size.runs, plan)
    for _ in range(size.outcomes):
        test.add((rng.random(size.runs) < 0.9).astype(float))
    return float(np.isfinite(test.alarm_at).mean())


def watch_delay(size: Size, expected: float) -> float:
    """Median of the outcomes until an alarm after a fall from 0.9 to 0.8."""
    rng = seeded("watch, worse", expected)
    plan = WatchPlan(metrics=(WatchedMetric(expected=expected),), alpha=ALPHA, outcomes=10_000)
    test, change = Watches(size.runs, plan), 500
    for number in range(change + 2000):
        rate = 0.9 if number < change else 0.8
        test.add((rng.random(size.runs) < rate).astype(float))
    after = test.alarm_at[test.alarm_at > change]
    return float(np.median(after)) - change


def assignment(size: Size) -> dict[str, float]:
    """Units that change their arm in a full ramp, or leave it."""
    splits = [
        TrafficSplit(agent="a", experiment_id="ramp", candidate_id="c", enrolled=enrolled)
        for enrolled in STEPS
    ]
    reassigned = candidates = 0
    for number in range(size.assigned):
        name = f"conversation-{number}"
        arms = [arm_of(split, name) for split in splits]
        joined = [arm for arm in arms if arm is not None]
        reassigned += len(set(joined)) != 1 or arms[len(arms) - len(joined) :] != joined
        candidates += arms[-1] == "candidate"
    return {"reassigned": reassigned, "candidate's share": candidates / size.assigned}


def speed() -> dict[str, float]:
    """Microseconds for an assignment, for the start of a call in a canary, which is written to a
    file, and for an outcome in a canary and in a watch."""
    split = TrafficSplit(agent="a", experiment_id="e", candidate_id="c", enrolled=1.0)
    names = [f"conversation-{number}" for number in range(3000)]
    rng = seeded("speed")
    outcomes = [
        LiveOutcome(
            trace_id=name,
            unit=name,
            at=0.0,
            arm="candidate" if treated else "baseline",
            score=score,
            group="group",
        )
        for name, treated, score in zip(
            names,
            (rng.random(len(names)) < 0.5).tolist(),
            (rng.random(len(names)) < 0.9).astype(float).tolist(),
            strict=True,
        )
    ]
    released = [msgspec.structs.replace(outcome, arm=None) for outcome in outcomes]
    undecided = CanaryPlan(alpha=1e-9, harm_alpha=1e-9, min_effect=0.5)
    watched = WatchPlan(metrics=(WatchedMetric(expected=0.8),))

    def add_all(test: CanaryTest | WatchTest, given: list[LiveOutcome]) -> None:
        for outcome in given:
            test.add(outcome)

    def microseconds(work: Callable[[], object]) -> float:
        best = math.inf
        for _ in range(5):
            began = time.perf_counter()
            work()
            best = min(best, time.perf_counter() - began)
        return round(best / len(names) * 1e6, 2)

    return {
        "assignment_us": microseconds(lambda: [arm_of(split, name) for name in names]),
        "start_us": microseconds(lambda: begin_calls(len(names))),
        "canary_us": microseconds(lambda: add_all(CanaryTest.begin(undecided), outcomes)),
        "watch_us": microseconds(lambda: add_all(WatchTest.begin(watched), released)),
    }


def begin_calls(count: int) -> None:
    """Record the starts of so many calls of a canary, each of which ends at once."""
    attributes = {EXPERIMENT: "e", ARM: "candidate", UNIT: unit_digest("unit"), CANDIDATE: "c"}
    with tempfile.TemporaryDirectory() as folder:
        starts = CallStarts(Spool(Path(folder)))
        for number in range(count):
            span = SimpleNamespace(
                trace_id=number, span_id=number, start_ns=number, attributes=attributes
            )
            call = LiveCall({})
            starts.begin(span, call, "agent", 0.0)
            call.over = True
        starts.close()


def report(found: dict[str, Any], size: Size) -> dict[str, Any]:
    false = {name: value for name, value in found.items() if name.startswith("canary 0.")}
    streams = [found["stream of canaries"], found["stream of shadows"]]
    return {
        "alpha": ALPHA,
        "stream_false_promotion": max(each["false"] for each in streams),
        "canary_false_promotion": max(each["promoted"] for each in false.values()),
        "harm_median_pairs": found["shadow, worse"]["median to harm"],
        "canary_harm_median": found["canary, worse"],
        "watch_false_alarms": found["watch, unchanged"],
        "watch_median_delay": found["watch, worse"],
        "srm_found": found["sample ratio"]["found"],
        "canary_power_with_covariates": found["canary with covariates"],
        "canary_power_without": found["canary without covariates"],
        "reassigned": found["assignment"]["reassigned"],
        "srm_median_units": found["sample ratio"]["median"],
        "srm_false_holds": max(each["held"] for each in false.values()),
        "canary_interval_missed": max(each["interval missed"] for each in false.values()),
        "canary_false_promotions": {name: false[name]["promoted"] for name in sorted(false)},
        "stream_inconclusive": max(each["inconclusive"] for each in streams),
        "shadow_pass_equal": found["shadow, equal"]["passed"],
        "shadow_pass_better": found["shadow, better"]["passed"],
        "shadow_median_better": found["shadow, better"]["median to pass"],
        "canary_pass_equal": found["canary, equal"]["passed"],
        "watch_median_delay_cautious": found["watch, worse, cautious"],
        "feedback_canary_power": found["feedback, better"]["passed"],
        "feedback_canary_median": found["feedback, better"]["median to pass"],
        "feedback_canary_told": min(found[f"feedback, told at {each}"] for each in COVERAGES),
        "feedback_canary_proved": found["feedback, silent bets"]["proved"],
        "feedback_canary_false": max(found[f"feedback, {name}"] for name in BOUNDED),
        "feedback_canary_false_silence": found["feedback, silence by arm"],
        "feedback_canary_false_leaving": found["feedback, leaving without a word"],
        "shadow_missing_false": found["shadow, missing"]["promoted"],
        "shadow_missing_harm": found["shadow, missing"]["harm"],
        "canary_missing_false": found["canary, missing"]["promoted"],
        "canary_missing_harm": found["canary, missing"]["harm"],
        "hang_passed": found["canary, hanging"]["passed"],
        "hang_passed_stored": found["canary, hanging"]["passed, stored"],
        "hang_counted": found["canary, hanging"]["hanging calls that count"],
        "candidate_share": found["assignment"]["candidate's share"],
        "peers": {
            "z_test_false_promotion": false["canary 0.5 0.9 better"]["promoted by a z-test"],
            "interval_missed_without_waiting": max(
                each["interval missed without waiting"] for each in false.values()
            ),
            "feedback_canary_proved_skipping": found["feedback, silent bets"]["skipped"],
            "hang_passed_left_out": found["canary, hanging"]["passed if left out"],
            "shadow_missing_false_left_out": found["shadow, missing"]["promoted if left out"],
            "canary_missing_false_left_out": found["canary, missing"]["promoted if left out"],
            "canary_pass_equal_fixed_bets": found["canary, equal"]["fixed bets"],
        },
        "units": size.units,
        "runs": size.runs,
        "canary_runs": size.canary_runs,
    }


def bounds_missed(result: dict[str, Any], size: Size) -> list[str]:
    """Bounds that do not hold.

    A bound on errors that is tight by design may be exceeded by three standard errors of the
    simulation, and those of missing scores and of feedback by two.
    """
    missed = []
    for name in (
        *("feedback_canary_false", "shadow_missing_false", "canary_missing_false"),
        *("shadow_missing_harm", "canary_missing_harm", "hang_passed"),
    ):
        if result[name] > ALPHA + 2.0 * math.sqrt(ALPHA * (1.0 - ALPHA) / size.runs):
            missed.append(f"{name} is {result[name]}, more than {ALPHA}")
    for name in ("feedback_canary_power", "feedback_canary_told"):
        if result[name] < 0.8:
            missed.append(f"{name} is {result[name]}, less than 0.8")
    for name, bound, runs in (
        ("stream_false_promotion", ALPHA, size.runs),
        ("canary_false_promotion", ALPHA, size.canary_runs),
        ("canary_interval_missed", ALPHA, size.canary_runs),
        ("watch_false_alarms", ALPHA, size.runs),
        ("srm_false_holds", 0.001, size.canary_runs),
        ("harm_median_pairs", 100, 0),
        ("canary_harm_median", 600, 0),
        ("watch_median_delay", 250, 0),
        ("reassigned", 0, 0),
    ):
        slack = 3.0 * math.sqrt(bound * (1.0 - bound) / runs) if runs else 0.0
        if result[name] is None or result[name] > bound + slack:
            missed.append(f"{name} is {result[name]}, more than {bound}")
    if result["srm_found"] < 0.95:
        missed.append(f"srm_found is {result['srm_found']}, less than 0.95")
    if result["canary_power_with_covariates"] <= result["canary_power_without"]:
        missed.append("covariates do not help")
    return missed


if __name__ == "__main__":
    sys.exit(main())
