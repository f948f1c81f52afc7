"""Part: how often `sql` and `numeric` call different answers equal, and equal ones different."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import number_answers
import sql_pairs

from ratchet.evaluate import Evaluator, numeric, sql
from ratchet.types import Rollout, Score

HELD_OUT = 77_003
"""Seed of the figures that are printed; the evaluators were written with others in view."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def rated(evaluator: Evaluator, output: Any, expected: Any) -> Score:
    rollout = Rollout(
        id="r", queue="q", candidate_id="c", task_id="t", input="", status="succeeded",
        output=output, expected=expected,
    )  # fmt: skip
    return asyncio.run(evaluator.score(rollout, lambda _: []))


def sql_equivalence(quick: bool, seed: int | None = None) -> dict[str, Any]:
    """Figures of `sql`, with the schema and without it."""
    seed = HELD_OUT if seed is None else seed
    pairs = sql_pairs.pairs(seed, 1 if quick else 4)
    if quick:
        pairs = random.Random(seed).sample(pairs, 60)
    different = sum(not pair.equal for pair in pairs)
    made: dict[str, Any] = {"sql_pairs": len(pairs), "sql_pairs_different": different}
    for name in ("", "inferred_"):
        wrong = {True: 0, False: 0}
        unscored = 0
        begun = time.process_time()
        for pair in pairs:
            evaluator = sql() if name else sql(schema=pair.schema)
            score = rated(evaluator, pair.given, pair.expected)
            if score.value is None:
                unscored += 1
                say(f"{name}unscored: {score.error}\n  {pair.expected}\n  {pair.given}")
            elif (score.value == 1) != pair.equal:
                wrong[pair.equal] += 1
                which = "different" if pair.equal else "equal"
                say(f"{name}false {which}: {score.rationale}\n  {pair.expected}\n  {pair.given}")
        seconds = time.process_time() - begun
        made |= {
            f"{name}false_equal": round(wrong[False] / different, 4),
            f"{name}false_different": round(wrong[True] / (len(pairs) - different), 4),
            f"{name}sql_unscored": unscored,
            f"{name}sql_per_s": round(len(pairs) / seconds, 1),
        }
    evaluator = sql(schema=sql_pairs.SCHEMA)
    made["empty_pairs"] = len(sql_pairs.EMPTY)
    made["empty_called_equal"] = sum(
        rated(evaluator, given, expected).value is not None for expected, given in sql_pairs.EMPTY
    )
    say(f"sql: {made}")
    return made


def numbers(quick: bool, seed: int | None = None) -> dict[str, Any]:
    """Figures of `numeric`."""
    answers = number_answers.answers(HELD_OUT if seed is None else seed, 1 if quick else 5)
    false_equal = false_different = wrong_numbers = 0
    begun = time.process_time()
    for answer in answers:
        evaluator = numeric(decimal_comma=answer.decimal_comma)
        if rated(evaluator, answer.text, answer.number).value != 1:
            false_different += 1
            say(f"false different: {answer.number} in {answer.text!r}")
        for wrong in answer.wrong:
            wrong_numbers += 1
            if rated(evaluator, answer.text, wrong).value != 0:
                false_equal += 1
                say(f"false equal: {wrong} in {answer.text!r}")
    made = {
        "number_answers": len(answers),
        "number_wrong": wrong_numbers,
        "number_false_equal": round(false_equal / wrong_numbers, 4),
        "number_false_different": round(false_different / len(answers), 4),
        "number_per_s": round((len(answers) + wrong_numbers) / (time.process_time() - begun)),
    }
    say(f"numbers: {made}")
    return made
