"""Whole runs, in small: a search, the gate, and the proofs of what it lets through.

Scores are those of an answer with two parts, each right or wrong and varying from call to call. The
mean difference of 24 val tasks then has a standard error of 0.08, as with the support tickets.
Eight candidates run some train tasks; the best three of them run more, and val. One of the three
has a gain of 0.1, or none has any. The luck that chose them is in the scores that the gate sees, as
in a real search. Then `ranked` and `next_nominee` of the loop decide, on 72 test tasks.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np

from ratchet.autopilot.nomination import NOMINEES, next_nominee, ranked
from ratchet.prove import Comparison, ExperimentPlan, PairedScore, level
from ratchet.prove.prospect import has_prospect

TRAIN, VAL, TEST = 48, 24, 72
CANDIDATES, FIRST, FINALISTS = 8, 8, 3
GAIN = 0.1
AT_ONCE = 4
"""Pairs that run at once."""
ALPHA = 0.05

LEARNING = TRAIN + VAL + CANDIDATES * FIRST + FINALISTS * (TRAIN - FIRST + VAL)
"""Rollouts of the baseline and of learning."""


@dataclass(frozen=True)
class GateRun:
    """How one run ended."""

    let_through: bool
    """Whether the candidate with the gain began a proof."""
    promoted_gain: bool
    promoted_none: bool
    wasted: int
    """Rollouts of proofs of candidates without a gain."""
    proofs: int
    """Rollouts of all proofs."""


@dataclass(frozen=True)
class Population:
    """What the candidates of a search are worth."""

    name: str
    best: float
    """Gain of one of those that reach val."""
    others: float
    """Gain of all others."""
    parts: int = 2
    """Parts of an answer; with one it is right or wrong."""


POPULATIONS = (
    Population("gain", GAIN, 0.0),
    Population("gain_right_or_wrong", GAIN, 0.0, parts=1),
    Population("gain_among_losses", GAIN, -0.1),
    Population("none", 0.0, 0.0),
    Population("none_right_or_wrong", 0.0, 0.0, parts=1),
    Population("losses", -0.05, -0.05),
)


def drawn(
    rng: np.random.Generator, tasks: int, gains: np.ndarray, parts: int
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of the source by task, and of each candidate by candidate and task."""
    chance = 0.1 + 0.8 * rng.beta(0.3, 0.3, tasks)
    source = (rng.random((parts, tasks)) < chance).mean(0)
    higher = np.clip(chance + gains[:, None, None], 0.0, 1.0)
    return source, (rng.random((len(gains), parts, tasks)) < higher).mean(1)


def gate_run(population: Population, seed: int, number: int, *, val_alone: bool = False) -> GateRun:
    """One run.

    Args:
        population: What its candidates are worth.
        seed: Of the simulation.
        number: Of the run.
        val_alone: Whether the gate is the older one: the best by its train scores goes to the proof
            if it scores no less than the source on val, and the proof takes what it takes.
    """
    rng = np.random.default_rng([seed, POPULATIONS.index(population), number])
    gains = np.full(CANDIDATES, population.others)
    gains[0] = population.best
    source, scores = drawn(rng, TRAIN + VAL, gains, population.parts)
    difference = scores - source
    lead = np.argsort(-difference[1:, :FIRST].mean(1), kind="stable")[: FINALISTS - 1] + 1
    finalists = [0, *lead.tolist()]
    if val_alone:
        best = max(finalists, key=lambda one: difference[one, :TRAIN].mean())
        order = [best] if difference[best, TRAIN:].mean() >= 0.0 else []
        known = {}
    else:
        seen = {
            str(one): difference[one, : None if one in finalists else FIRST].tolist()
            for one in range(CANDIDATES)
        }
        named = ranked(seen, "")[:NOMINEES]
        known = {"nominees": msgspec.to_builtins(named), "all_rollouts": LEARNING}
        order = [int(named[0].candidate_id)] if named else []
        learned = {one.candidate_id: one.gain for one in named}
    before, after = drawn(rng, TEST, gains, population.parts)
    history: list[bool] = []
    begun: list[int] = []
    wasted = proofs = run = 0
    while order:
        candidate = order.pop()
        plan = ExperimentPlan(alpha=level(ALPHA, history), max_pairs=TEST)
        comparison = Comparison(plan)
        pairs = zip(before.tolist(), after[candidate].tolist(), strict=True)
        for task, (ours, theirs) in enumerate(pairs, 1):
            if comparison.observe(PairedScore(str(task), ours, theirs)) is not None:
                break
            looks = not val_alone and task % AT_ONCE == 0
            if looks and not has_prospect(comparison, learned[str(candidate)]):
                break
        verdict = comparison.finish()
        history.append(verdict == "promote")
        begun.append(candidate)
        took = len(comparison.pairs)
        cost = took + max(0, took - run)  # the source's rollouts are there already
        run = max(run, took)
        proofs += cost
        wasted += cost if gains[candidate] <= 0.0 else 0
        if not val_alone and verdict not in ("promote", "not_proved"):
            another = next_nominee(
                known, str(candidate), spent=proofs, shortest_proof=plan.min_pairs
            )
            order = [int(another.candidate_id)] if another else []
    last_gain = gains[begun[-1]] if begun else 0.0
    promoted = bool(history) and history[-1]
    return GateRun(
        let_through=0 in begun,
        promoted_gain=promoted and last_gain > 0.0,
        promoted_none=promoted and last_gain <= 0.0,
        wasted=wasted,
        proofs=proofs,
    )


def counted(job: tuple[int, int, int, float]) -> dict[str, dict[str, float]]:
    """Shares over the runs of one population, with the gate and with the older one."""
    index, runs, seed, _ = job
    population = POPULATIONS[index]
    shares = {}
    for name, val_alone in (("ours", False), ("val_alone", True)):
        ended = [gate_run(population, seed, n, val_alone=val_alone) for n in range(runs)]
        rollouts = runs * LEARNING + sum(one.proofs for one in ended)
        shares[name] = {
            "let_through": sum(one.let_through for one in ended) / runs,
            "promoted": sum(one.promoted_gain for one in ended) / runs,
            "false_promotion": sum(one.promoted_none for one in ended) / runs,
            "wasted_share": round(sum(one.wasted for one in ended) / rollouts, 4),
            "proof_rollouts": round(sum(one.proofs for one in ended) / runs, 1),
        }
    return shares


def report(shares: list[dict[str, dict[str, float]]]) -> dict[str, object]:
    """The figures by their keys."""
    named = {p.name: share for p, share in zip(POPULATIONS, shares, strict=True)}
    ours = {name: share["ours"] for name, share in named.items()}
    return {
        **{
            f"gate_lets_through_{name}": share["let_through"]
            for name, share in ours.items()
            if name.startswith("gain")
        },
        "gate_wasted_share": max(share["wasted_share"] for share in ours.values()),
        "gate_false_promotion": max(share["false_promotion"] for share in ours.values()),
        "gate_learning_rollouts": LEARNING,
        "gate": named,
    }
