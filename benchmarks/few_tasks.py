"""Measures which shares of a small task file for train, val and test prove the most.

    python benchmarks/few_tasks.py [--quick]

A project has 20, 40, 80 or 120 tasks, whose scores are 0 or 1; the baseline solves half of them. A
search proposes 16 candidates. The gain of each is drawn from a normal distribution with mean 0 and
standard deviation 0.25; half of what is solved by chance is common to all candidates on a task. The
candidate that is best on train is compared with the baseline on val, and where it is not worse
there, on test: a first experiment of a stream, with the default guardrail on errors, which nobody
breaks. The comparison is `ratchet.prove`'s own, with the margin that the planned pairs can prove.

Progress goes to stderr. The last line of stdout is one JSON object:

- proved: number of tasks → shares, as TRAIN/VAL/TEST → share of projects that end as proved better
- not_proved: the same → share that end as not proved
- chosen: number of tasks → the shares that `curate.usual_split` gives
- worst_loss: by how much the best shares prove more often than the chosen ones, at most; of 40 and
  more tasks, since with 20 hardly anything is proved however they are shared
- false: share of projects whose promoted candidate is no better, of all projects

The exit code is 1 when `worst_loss` is above 0.1.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter

from ratchet.curate.usual_split import usual_split
from ratchet.prove import Comparison, ExperimentPlan, Guardrail, PairedScore, level
from ratchet.prove.smallest_margin import smallest_margin
from ratchet.types import Task

SIZES = (20, 40, 80, 120)
SHARES = (
    (0.6, 0.2, 0.2),
    (0.4, 0.2, 0.4),
    (0.5, 0.1, 0.4),
    (0.4, 0.1, 0.5),
    (0.3, 0.2, 0.5),
    (0.3, 0.1, 0.6),
    (0.2, 0.1, 0.7),
)
CANDIDATES = 16
SPREAD = 0.25
BASELINE = 0.5
COMMON = 0.5
"""Share of the scores in which chance decides alike for all candidates."""

LARGEST_LOSS = 0.1


def scores(rate: float, chances: list[float], draw: random.Random) -> list[float]:
    """Scores of a candidate on tasks: 1 with probability `rate`."""
    return [
        float((chance if draw.random() < COMMON else draw.random()) < rate) for chance in chances
    ]


def project(
    count: int, shares: tuple[float, float, float], draw: random.Random
) -> tuple[str, bool]:
    """How one project ends, and whether its candidate is better."""
    train = max(1, round(count * shares[0]))
    val = max(1, round(count * shares[1]))
    chances = [draw.random() for _ in range(count)]
    gains = [draw.gauss(0.0, SPREAD) for _ in range(CANDIDATES)]
    rates = [min(1.0, max(0.0, BASELINE + gain)) for gain in gains]
    before = scores(BASELINE, chances, draw)
    after = [scores(rate, chances, draw) for rate in rates]
    best = max(range(CANDIDATES), key=lambda number: sum(after[number][:train]))
    better = rates[best] > BASELINE
    selected = slice(train, train + val)
    if sum(after[best][selected]) < sum(before[selected]):
        return "no_gain", better
    pairs = list(zip(before[train + val :], after[best][train + val :], strict=True))
    alpha = level(0.05, ())
    plan = ExperimentPlan(
        alpha=alpha,
        min_pairs=min(10, len(pairs)),
        max_pairs=len(pairs),
        guardrails=(smallest_margin(Guardrail("errors", 0.1), alpha=alpha, pairs=len(pairs)),),
    )
    comparison = Comparison(plan)
    for number, (one, other) in enumerate(pairs):
        if comparison.observe(PairedScore(str(number), one, other, {"errors": (0.0, 0.0)})):
            break
    return comparison.finish(), better


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller run, for CI")
    projects = 300 if parser.parse_args().quick else 3_000
    proved: dict[str, dict[str, float]] = {}
    not_proved: dict[str, dict[str, float]] = {}
    chosen: dict[str, str] = {}
    wrong = total = 0
    for count in SIZES:
        dataset = usual_split(
            [Task(str(n), f"task {n:x}") for n in range(count)],
            name="tasks",
            enough=365,
            near_duplicates=False,
        )
        held = [len(dataset.split(split)) / count for split in ("train", "val", "test")]
        nearest = min(SHARES, key=lambda s: sum(abs(a - b) for a, b in zip(s, held, strict=True)))
        chosen[str(count)] = named(nearest)
        for shares in SHARES:
            draw = random.Random(f"few/{count}")  # the same projects for all shares
            ends = [project(count, shares, draw) for _ in range(projects)]
            tally = Counter(verdict for verdict, _ in ends)
            wrong += sum(verdict == "promote" and not better for verdict, better in ends)
            total += projects
            key = named(shares)
            proved.setdefault(str(count), {})[key] = round(tally["promote"] / projects, 4)
            not_proved.setdefault(str(count), {})[key] = round(tally["not_proved"] / projects, 4)
        print(f"{count} tasks, {chosen[str(count)]}: {proved[str(count)]}", file=sys.stderr)
    loss = max(max(proved[n].values()) - proved[n][chosen[n]] for n in list(proved)[1:])
    answer = {
        "proved": proved,
        "not_proved": not_proved,
        "chosen": chosen,
        "worst_loss": round(loss, 4),
        "false": round(wrong / total, 4),
    }
    print(json.dumps(answer))
    return int(loss > LARGEST_LOSS)


def named(shares: tuple[float, float, float]) -> str:
    return "/".join(f"{100 * share:.0f}" for share in shares)


if __name__ == "__main__":
    sys.exit(main())
