"""The embedded model as a judge of a labelled set: its agreement with the labels, its report card.

    python benchmarks/parts/evaluators/local_judge.py

Thirty facts, each with a right and a wrong answer. The labels follow from the facts. SmolLM2 has
135 million parameters; what is shown is that the measurement tells such a judge from one to trust.
The card is printed; the last line is one JSON object. It takes some minutes on two cores.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec

from ratchet.evaluate import make_evaluator
from ratchet.evaluate.judges.realign import agreement
from ratchet.evaluate.report_card import make_card, make_cases
from ratchet.types import Label, ReportCard, Rollout

FACTS = (
    ("What is the capital of France?", "Paris", "Rome"),
    ("What is 7 plus 5?", "12", "13"),
    ("Which planet is nearest to the sun?", "Mercury", "Saturn"),
    ("How many legs has a spider?", "eight", "six"),
    ("What is the opposite of hot?", "cold", "warm"),
    ("Which animal barks?", "the dog", "the cat"),
    ("What is frozen water called?", "ice", "steam"),
    ("How many days has a week?", "seven", "nine"),
    ("What is the first letter of the alphabet?", "A", "Q"),
    ("Which colour has the sky on a clear day?", "blue", "green"),
    ("What do bees make?", "honey", "milk"),
    ("What is 10 minus 4?", "6", "5"),
    ("In which country is Tokyo?", "Japan", "Spain"),
    ("Which month comes after May?", "June", "March"),
    ("How many wheels has a bicycle?", "two", "four"),
    ("What is the largest ocean?", "the Pacific", "the Arctic"),
    ("Who wrote Hamlet?", "Shakespeare", "Mozart"),
    ("What is the chemical formula of water?", "H2O", "CO2"),
    ("How many minutes has an hour?", "60", "90"),
    ("Which season follows winter?", "spring", "autumn"),
    ("What is the past tense of go?", "went", "goed"),
    ("Which metal is liquid at room temperature?", "mercury", "iron"),
    ("How many sides has a triangle?", "three", "five"),
    ("What is half of 18?", "9", "8"),
    ("Which direction is opposite to north?", "south", "east"),
    ("What do cows eat?", "grass", "stones"),
    ("How many letters has the English alphabet?", "26", "24"),
    ("Which gas do people need to breathe?", "oxygen", "helium"),
    ("In which city is the Colosseum?", "Rome", "Berlin"),
    ("What is 3 times 4?", "12", "10"),
)


def cases(count: int) -> list[tuple[Rollout, float]]:
    """Rollouts with their labels, right and wrong in turn."""
    made: list[tuple[Rollout, float]] = []
    for number, (question, right, wrong) in enumerate(FACTS):
        for answer, label in ((right, 1.0), (wrong, 0.0)):
            rollout = Rollout(
                id=f"{number}/{label:g}",
                queue="q",
                candidate_id="c",
                task_id=str(number),
                input=question,
                output=answer,
                expected=right,
                status="succeeded",
            )
            made.append((rollout, label))
    return made[:count]


def measure(quick: bool = False, **options: Any) -> dict[str, Any]:
    """Have the embedded model judge the set; a few seconds for each case on one core.

    Args:
        quick: Six cases instead of sixty, and no report card.
        options: Options of the judge, instead of the embedded model.

    Returns:
        judge_cases, judge_unscored, judge_accuracy, judge_majority, judge_kappa and its interval
        (judge_kappa_low, judge_kappa_high); kappa is None for a judge with one verdict only.
        judge_verdict, judge_reasons: of its report card.
    """
    wanted = {"model": "local", "form": "reference", "max_tokens": 60, "concurrency": 2, **options}
    evaluator = make_evaluator("judge", wanted)
    labelled = cases(6 if quick else 60)
    card = None
    try:
        scores = asyncio.run(_scores(evaluator, [rollout for rollout, _ in labelled]))
        if not quick:
            card = asyncio.run(_card(evaluator, labelled))
    finally:
        evaluator.judge.close()
    found = agreement(scores, [label for _, label in labelled])
    kappa = msgspec.to_builtins(found.kappa) or {}
    return {
        "judge_cases": found.cases,
        "judge_unscored": found.unscored,
        "judge_accuracy": found.accuracy,
        "judge_majority": found.majority,
        **{
            f"judge_kappa{suffix}": kappa.get(name)
            for suffix, name in (("", "value"), ("_low", "low"), ("_high", "high"))
        },
        **({} if card is None else {"judge_verdict": card.verdict, "judge_reasons": card.reasons}),
    }


async def _card(evaluator: Any, labelled: list[tuple[Rollout, float]]) -> ReportCard:
    labels = [Label(id=r.id, rollout_id=r.id, value=label) for r, label in labelled]
    card = await make_card(
        evaluator,
        make_cases([rollout for rollout, _ in labelled], labels),
        spans_of=lambda _: [],
        copies=1,
        limit_s=300.0,
    )
    for check in card.checks:
        value = "" if check.value is None else f"{check.value:.3f}"
        print(f"{check.name:24s} {value:>8s}  {check.verdict:12s} {check.detail}")
    return card


async def _scores(evaluator: Any, rollouts: list[Rollout]) -> list[float | None]:
    scored = [evaluator.score(rollout, lambda _: []) for rollout in rollouts]
    return [score.value for score in await asyncio.gather(*scored)]


if __name__ == "__main__":
    print(json.dumps(measure()))
