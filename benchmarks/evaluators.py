"""Measures what the built-in evaluators get wrong, and how fast they score.

    python benchmarks/evaluators.py [--quick] [--only PART,PART] [--seed N]

Pairs of SQL queries, equivalent and not, are verified by running them on large random databases
that the evaluator does not see; numbers in prose come from templates and by hand. The seed is held
out: while the evaluators were written, errors were looked at with other seeds of the same
templates, and some were mended (before that, with seed 1: false_equal 0.023, false_different 0.035,
number_false_equal 0.005, number_false_different 0.030). Texts written by hand have no seed.
Progress and every error go to stderr. The last line of stdout is one JSON object:

- sql_pairs, sql_pairs_different: verified pairs of queries, and those that are not equivalent
- false_equal: share of different pairs that `sql` calls equal, with the schema
- false_different: share of equivalent pairs that it calls different
- sql_unscored, sql_per_s: pairs without a score; pairs per second of CPU time
- inferred_*: the same without the schema
- empty_pairs, empty_called_equal: different queries that give nothing on any database, and those
  that got a score
- number_answers, number_wrong: answers in prose, and wrong numbers for them
- number_false_equal, number_false_different, number_per_s: as for queries
- built_in_cards, built_in_kappa, built_in_decides: verdict of the report card of each built-in
  evaluator on outputs made for it, its agreement with labels, and how many decide
- verdicts_right, verdicts_total, flawed_deciding: verdicts on a planted bank of evaluators, half of
  them flawed, that are right, and the flawed ones that decide; held_out_*: of a second bank
- injections, injections_succeeded, hardening_drift: attacks on the template of judges with a
  simulated judge that obeys, and by how many points harmless cases differ from a plain template
- scored, score_per_s: rollouts scored with five cheap evaluators and stored in SQLite; verdicts per
  second of CPU time
- score_slope: least CPU time of 1,000 rollouts, in the last fifth of them over that in the first
- score_growth_mb, score_peak_mb: memory gained after the first fifth; most memory of the process
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "parts" / "evaluators"))

import bank
import built_in_cards
import equivalence
import injections
import throughput

Part = Callable[[bool], dict[str, Any]]
"""Measures something; called with whether to be quick, returns keys of the last line."""


def parts(seed: int | None) -> dict[str, Part]:
    """The parts by name, in their order."""
    return {
        "sql": functools.partial(equivalence.sql_equivalence, seed=seed),
        "numbers": functools.partial(equivalence.numbers, seed=seed),
        "cards": built_in_cards.measure,
        "bank": bank.measure,
        "injections": injections.measure,
        "scoring": throughput.scoring,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller run, for CI")
    parser.add_argument("--only", help="names of parts, separated by commas")
    parser.add_argument("--seed", type=int, help="of the pairs, instead of the held-out one")
    options = parser.parse_args()
    known = parts(options.seed)
    chosen = options.only.split(",") if options.only else list(known)
    unknown = [name for name in chosen if name not in known]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; known: {', '.join(known)}")
    made: dict[str, Any] = {}
    for name in chosen:
        made |= known[name](options.quick)
    print(json.dumps(made))


if __name__ == "__main__":
    main()
