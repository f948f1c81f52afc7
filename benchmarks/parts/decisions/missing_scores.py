"""Experiments in which scores are missing: at random, or where that helps a wrong verdict most."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from parts.decisions.gates import Scores, verdict
from parts.decisions.paired_scores import KINDS, lose_at_random, lose_best, lose_worst
from ratchet.prove import ExperimentPlan
from ratchet.prove.missing import MissingRule

MIN_GAIN = 0.02
"""The smallest relevant gain where giving up wrongly is measured."""


@dataclass(frozen=True)
class Unscored:
    """One kind of experiment."""

    purpose: str
    """The key of the report that this belongs to."""
    scores: str
    gain: float
    pairs: int
    share: float
    """Share of scores that are missing, of each side that loses any."""
    lost: str
    """worst, best: the candidate's worst tasks, or its best ones and the baseline's beside them;
    random: of both sides; zero: as random, but scored 0, as an answer that its evaluator fails on.
    """
    rule: MissingRule = "worst"

    @property
    def label(self) -> str:
        return f"{self.scores}, {self.pairs} pairs, {100 * self.share:g} % {self.lost}"

    def draw(self, rng: np.random.Generator, runs: int) -> tuple[Scores, Scores]:
        baseline, candidate = KINDS[self.scores](rng, (runs, self.pairs), self.gain)
        if self.lost == "worst":
            return lose_worst(rng, baseline, candidate, self.share)
        if self.lost == "best":
            return lose_best(rng, baseline, candidate, self.share)
        baseline, candidate = lose_at_random(rng, baseline, candidate, self.share)
        if self.lost == "zero":
            return np.nan_to_num(baseline), np.nan_to_num(candidate)
        return baseline, candidate

    def plan(self, alpha: float) -> ExperimentPlan:
        return ExperimentPlan(
            alpha=alpha,
            min_gain=MIN_GAIN if self.purpose == "wrongful_futile_missing" else 0.01,
            max_pairs=self.pairs,
            missing=self.rule,
        )

    @property
    def wrong(self) -> str:
        """The verdict that is counted."""
        kinds = {"wrongful_harm_missing": "harm", "wrongful_futile_missing": "futile"}
        return kinds.get(self.purpose, "promote")


def scenarios() -> Iterable[Unscored]:
    for scores in KINDS:
        for pairs in (120, 400):
            yield Unscored("false_promotion_missing", scores, 0.0, pairs, 0.09, "worst")
            for lost in ("random", "zero"):
                yield Unscored("random_evaluator_failures", scores, 0.0, pairs, 0.05, lost)
        yield Unscored("false_promotion_dropped", scores, 0.0, 400, 0.09, "worst", "skip")
        for share in (0.025, 0.05):
            for lost in ("random", "best"):
                yield Unscored("wrongful_harm_missing", scores, 0.0, 400, share, lost)
                yield Unscored("wrongful_futile_missing", scores, MIN_GAIN, 400, share, lost)
        yield Unscored("power_missing", scores, 0.1, 120, 0.025, "random")


SCENARIOS = tuple(scenarios())


def counted(job: tuple[int, int, int, float]) -> float:
    """Share of experiments with the scenario's verdict; a job is its number, runs, seed, alpha."""
    number, runs, seed, alpha = job
    scenario = SCENARIOS[number]
    rng = np.random.default_rng([seed, 2000 + number])
    plan = scenario.plan(alpha)
    baseline, candidate = scenario.draw(rng, runs)
    verdicts = [
        verdict(plan, before, after)
        for before, after in zip(baseline.tolist(), candidate.tolist(), strict=True)
    ]
    return verdicts.count(scenario.wrong) / runs


def report(shares: list[float]) -> dict[str, object]:
    """The keys of the benchmark's JSON: of each purpose the worst case, and every case."""
    cases: dict[str, dict[str, float]] = {}
    for scenario, share in zip(SCENARIOS, shares, strict=True):
        cases.setdefault(scenario.purpose, {})[scenario.label] = share
    power = cases.pop("power_missing")
    graded, right_or_wrong = power.values()
    return {
        **{purpose: max(by_label.values()) for purpose, by_label in cases.items()},
        "power_missing": graded,
        "power_missing_right_or_wrong": right_or_wrong,
        "missing_cases": cases,
    }
