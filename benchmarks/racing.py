"""Measures which children a race drops wrongly and what it saves, compared with the former rule.

    python benchmarks/racing.py [--quick]

A child runs the tasks of its parent one after another, at most 40 train tasks, and the rule is
evaluated after each. Scores are 0 or 1. Each task has its own probability of success, drawn from a
beta distribution with mean 0.6; given that, child and parent succeed independently, so of two
equals each wins about one task in five. For a child that is better or worse by g each probability
is moved by the same amount, within [0, 1], so that the mean moves by g. The former rule dropped a
child as soon as the sum of its differences was negative.

Progress goes to stderr. The last line of stdout is one JSON object; `before` holds the same figures
of the former rule:

- no_worse_lost: share of children equal to their parents that are dropped
- better_lost_01: share of those better by 0.1
- rollouts_saved: share of rollouts saved on worse children, relative to running all tasks: the mean
  over children worse by 0.1, 0.2, 0.3 and 0.5
- by_gain: gain → share dropped, share of rollouts saved
- error: share of children, no worse, that the rule may drop

The exit code is 1 when the rule drops more children that are no worse than it may.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
from bisect import bisect_left
from collections.abc import Callable, Sequence

from ratchet.learn.race import ERROR, is_worse

TASKS = 40
MEAN, WEIGHT = 0.6, 2.0
"""Of the beta distribution of the tasks' chances."""

WORSE = (-0.1, -0.2, -0.3, -0.5)
GAINS = (*WORSE, -0.05, 0.0, 0.05, 0.1, 0.2)

Pair = tuple[float, float]
"""Scores of parent and child on a task."""

Rule = Callable[[Sequence[float]], bool]


def before(gains: Sequence[float]) -> bool:
    """The former rule after these differences: its bets won only when the sum was lost."""
    capital = 0.0
    for stake in (0.25, 0.5, 0.8):
        held = 1.0
        for gain in gains:
            held *= max(0.0, 1.0 - stake * gain)
        capital += held / 3
    return math.fsum(gains) < -1e-9 or capital >= 3.0


def now(gains: Sequence[float]) -> bool:
    """The rule of the race."""
    return is_worse(gains, TASKS)


def stop_before(gains: Sequence[float]) -> int | None:
    """Number of tasks after which the former rule drops a child; None if it never does."""
    return next((n for n in range(1, len(gains) + 1) if before(gains[:n])), None)


def stop_now(gains: Sequence[float]) -> int | None:
    """Number of tasks after which the race drops a child; None if it never does."""
    if not now(gains):
        return None
    return bisect_left(range(len(gains)), True, key=lambda n: now(gains[:n]))


def shift_for(gain: float) -> float:
    """Shift of each probability, clipped to [0, 1], that moves the mean by `gain`."""
    draw = random.Random(1)
    chances = [draw.betavariate(MEAN * WEIGHT, (1 - MEAN) * WEIGHT) for _ in range(20_000)]
    low, high = -1.5, 1.5
    for _ in range(30):
        middle = (low + high) / 2
        moved = statistics.fmean(min(1.0, max(0.0, c + middle)) - c for c in chances)
        low, high = (middle, high) if moved < gain else (low, middle)
    return low


def child(shift: float, draw: random.Random) -> list[Pair]:
    """Scores of a parent and of its child, by task."""
    pairs = []
    for _ in range(TASKS):
        chance = draw.betavariate(MEAN * WEIGHT, (1 - MEAN) * WEIGHT)
        own = min(1.0, max(0.0, chance + shift))
        pairs.append((float(draw.random() < chance), float(draw.random() < own)))
    return pairs


def gains_of(pairs: Sequence[Pair]) -> list[float]:
    """Differences of a child to its parent, by task."""
    return [own - base for base, own in pairs]


def measured(
    stop: Callable[[Sequence[Pair]], int | None], children: Sequence[Sequence[Pair]]
) -> list[float]:
    """The share of children that a rule stops, and the share of rollouts that it saves."""
    stops = [stop(pairs) for pairs in children]
    lost = sum(at is not None for at in stops) / len(stops)
    return [lost, 1.0 - statistics.fmean(at or TASKS for at in stops) / TASKS]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller run, for CI")
    quick = parser.parse_args().quick
    count = 200 if quick else 2_000
    rules: dict[str, Callable[[Sequence[Pair]], int | None]] = {
        "rule": lambda pairs: stop_now(gains_of(pairs)),
        "before": lambda pairs: stop_before(gains_of(pairs)),
    }
    by_gain: dict[str, dict[float, list[float]]] = {name: {} for name in rules}
    for gain in GAINS:
        draw, shift = random.Random(f"racing/{gain}"), shift_for(gain)
        children = [child(shift, draw) for _ in range(count)]
        for name, stop in rules.items():
            by_gain[name][gain] = measured(stop, children)
        each = ", ".join(
            f"{name} stops {found[gain][0]:.1%} and saves {found[gain][1]:.1%}"
            for name, found in by_gain.items()
        )
        print(f"{gain:+.2f}: {each}", file=sys.stderr, flush=True)
    answer: dict[str, dict[str, object]] = {
        name: {
            "no_worse_lost": round(found[0.0][0], 4),
            "better_lost_01": round(found[0.1][0], 4),
            "rollouts_saved": round(statistics.fmean(found[gain][1] for gain in WORSE), 4),
            "by_gain": {f"{g:+.2f}": [round(n, 4) for n in found[g]] for g in GAINS},
        }
        for name, found in by_gain.items()
    }
    rule = answer.pop("rule")
    print(json.dumps({**rule, **answer, "error": ERROR, "children": count, "quick": quick}))
    return 0 if by_gain["rule"][0.0][0] <= ERROR else 1


if __name__ == "__main__":
    raise SystemExit(main())
