"""Measures how many verdicts of report cards are right, on planted evaluators.

    python benchmarks/parts/evaluators/bank.py [--quick]

Two banks of 40 evaluators each, 20 sound and 20 flawed, over several kinds of tasks: numbers in
prose, JSON, short answers and queries (`bank_planted.py`, by which the limits were set), durations,
bookings, yes and no with reasons and formulas (`bank_held_out.py`, written before the first run of
either; rules of the card were mended after looking at its errors, so it is not entirely unseen).
The agents are simulated, and so are the people who label their outputs: one label in 25 is wrong. A
verdict is right if a sound evaluator decides and a flawed one advises or is rejected. The last line
printed is one JSON object:

- verdicts_right, verdicts_total, flawed_deciding: of the planted bank, with labels
- held_out_right, held_out_total, held_out_flawed_deciding: of the held-out bank, with labels
- unlabelled_flawed_deciding: flawed evaluators of both banks that decide without a label
- bank_wrong: names of the evaluators with wrong verdicts, with their verdicts
- bank_seconds: CPU seconds for all cards

The exit code is 1 when a flawed evaluator decides with labels, or fewer than 38 of the 40 verdicts
on the planted bank are right.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ratchet.evaluate import FunctionEvaluator
from ratchet.evaluate.report_card import make_card, make_cases
from ratchet.types import Label, ReportCard, Rollout

if __package__ in (None, ""):  # run as a file, or imported by name from benchmarks/evaluators.py
    sys.path.insert(0, str(Path(__file__).resolve().parent))

TASKS, LABELLED, MISTAKEN = 120, 90, 0.04
"""Tasks of each kind, how many of them are labelled, and the share of wrong labels."""


@dataclass(frozen=True)
class Made:
    """One simulated rollout."""

    input: Any
    expected: Any
    output: Any
    right: bool
    """Whether the output is right; known to the simulated people only."""


@dataclass(frozen=True)
class Planted:
    """An evaluator whose worth is known."""

    name: str
    kind: str
    """Kind of task."""
    sound: bool
    evaluator: FunctionEvaluator


Maker = Callable[[random.Random, int], Made]


def rollouts_of(maker: Maker, seed: int, tasks: int) -> tuple[list[Rollout], list[bool]]:
    """Simulated rollouts, and whether each is right."""
    made = [maker(random.Random(seed * 1_000_003 + n), n) for n in range(tasks)]
    rollouts = [
        Rollout(
            id=f"r{seed}-{n:04d}",
            queue="q",
            candidate_id="c",
            task_id=f"t{n}",
            status="succeeded",
            input=each.input,
            expected=each.expected,
            output=each.output,
            duration_s=0.1,
        )
        for n, each in enumerate(made)
    ]
    return rollouts, [each.right for each in made]


def labels_of(rollouts: Sequence[Rollout], right: Sequence[bool], seed: int) -> list[Label]:
    """Labels of simulated people for some rollouts."""
    rng = random.Random(seed)
    drawn = rng.sample(range(len(rollouts)), min(LABELLED, len(rollouts)))
    return [
        Label(
            id=f"l{n}",
            rollout_id=rollouts[n].id,
            value=float(right[n] is not (rng.random() < MISTAKEN)),
            drawn="random",
        )
        for n in drawn
    ]


def cards_of(
    bank: Sequence[Planted], makers: dict[str, Maker], *, seed: int, labelled: bool, tasks: int
) -> dict[str, ReportCard]:
    """The card of every evaluator of a bank."""
    data = {}
    for number, (kind, maker) in enumerate(makers.items()):
        rollouts, right = rollouts_of(maker, seed + number, tasks)
        labels = labels_of(rollouts, right, seed + number) if labelled else []
        data[kind] = make_cases(rollouts, labels)
    return {
        planted.name: asyncio.run(
            make_card(
                planted.evaluator,
                data[planted.kind],
                spans_of=lambda _: [],
                seed=seed,
            )
        )
        for planted in bank
    }


def is_right_verdict(planted: Planted, card: ReportCard) -> bool:
    """Whether a verdict is right."""
    return card.verdict == "decides" if planted.sound else card.verdict in ("advises", "rejected")


def measure(quick: bool) -> dict[str, Any]:
    """Figures for the benchmark of evaluators.

    Args:
        quick: Fewer tasks, so fewer unlabelled ones.
    """
    import bank_held_out
    import bank_planted

    tasks = 100 if quick else TASKS
    found: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    unlabelled = 0
    began = time.process_time()
    for prefix, module, seed in (
        ("verdicts", bank_planted, 19),
        ("held_out", bank_held_out, 4711),
    ):
        bank, makers = module.bank(), module.MAKERS
        cards = cards_of(bank, makers, seed=seed, labelled=True, tasks=tasks)
        right = {p.name: is_right_verdict(p, cards[p.name]) for p in bank}
        found[f"{prefix}_right"] = sum(right.values())
        found[f"{prefix}_total"] = len(bank)
        deciding = sum(cards[p.name].verdict == "decides" for p in bank if not p.sound)
        found["flawed_deciding" if prefix == "verdicts" else f"{prefix}_flawed_deciding"] = deciding
        for planted in bank:
            card = cards[planted.name]
            if not right[planted.name]:
                wrong[f"{prefix}: {planted.name}"] = f"{card.verdict}: {' '.join(card.reasons)}"
        without = cards_of(bank, makers, seed=seed, labelled=False, tasks=tasks)
        for planted in bank:
            if not planted.sound and without[planted.name].verdict == "decides":
                unlabelled += 1
                wrong[f"{prefix}, unlabelled: {planted.name}"] = "decides"
    found["unlabelled_flawed_deciding"] = unlabelled
    found["bank_wrong"] = wrong
    found["bank_seconds"] = round(time.process_time() - began, 2)
    return found


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    found = measure(parser.parse_args().quick)
    print(json.dumps(found))
    bad = found["flawed_deciding"] or found["held_out_flawed_deciding"]
    return int(bool(bad) or found["verdicts_right"] < 38)


if __name__ == "__main__":
    sys.modules.setdefault("bank", sys.modules["__main__"])
    sys.exit(main())
