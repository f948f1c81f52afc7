"""The scorer: every knob counts, and the order never depends on chance."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest
from typing import Any

from stdlib_helper.scoring import Candidate, Scorer, Settings, current_settings, rank

QUESTIONS = (
    "how do I count the words in a list",
    "copy a folder with all files",
    "parsing dates",
    "running total of numbers",
    "rename file",
    "get_close_matches for a misspelled word",
    "Counter",
)

# Another value for each knob, and what must stand otherwise for that knob to matter.
CHANGES: dict[str, tuple[Any, dict[str, Any]]] = {
    "name_weight": (8.0, {}),
    "signature_weight": (8.0, {}),
    "module_weight": (8.0, {}),
    "summary_weight": (8.0, {}),
    "details_weight": (0.0, {}),
    "members_weight": (0.0, {}),
    "k1": (8.0, {}),
    "b": (1.0, {}),
    "idf_power": (1.0, {}),
    "stem": (True, {}),
    "split_names": (True, {}),
    "stop_words": (True, {}),
    "ngram": ("char3", {}),
    "ngram_weight": (9.0, {"ngram": "char3"}),
    "synonym_weight": (1.0, {}),
    "exact_name_bonus": (9.0, {}),
    "coverage_bonus": (9.0, {"idf_power": 1.0}),
}


def orders(settings: Settings) -> list[list[str]]:
    scorer = Scorer(settings)
    return [
        [
            candidate["name"]
            for candidate in rank(
                scorer.candidates(question), settings.exact_name_bonus, settings.coverage_bonus
            )
        ]
        for question in QUESTIONS
    ]


def candidate(name: str, score: float, coverage: float = 0.0, exact: bool = False) -> Candidate:
    return {
        "name": name,
        "kind": "function",
        "score": score,
        "coverage": coverage,
        "exact_name": exact,
        "depth": 1,
    }


class ScoringTest(unittest.TestCase):
    def test_every_knob_changes_something(self) -> None:
        self.assertEqual(set(CHANGES), set(Settings._fields))
        defaults = current_settings()
        for knob, (value, context) in CHANGES.items():
            with self.subTest(knob):
                before = defaults._replace(**context)
                after = before._replace(**{knob: value})
                self.assertNotEqual(orders(before), orders(after))

    def test_the_best_come_first_and_equal_ones_by_name(self) -> None:
        for question in QUESTIONS:
            found = Scorer(current_settings()).candidates(question)
            keys = [(-entry["score"], entry["name"]) for entry in found]
            self.assertEqual(keys, sorted(keys))

    def test_rank_breaks_ties_by_name(self) -> None:
        found = rank([candidate("b", 1.0), candidate("a", 1.0), candidate("c", 2.0)], 0.0, 0.0)
        self.assertEqual([entry["name"] for entry in found], ["c", "a", "b"])

    def test_rank_adds_the_bonuses(self) -> None:
        found = [candidate("a", 1.0), candidate("b", 0.5, exact=True), candidate("c", 0.2, 1.0)]
        self.assertEqual([entry["name"] for entry in rank(found, 1.0, 0.0)], ["b", "a", "c"])
        self.assertEqual([entry["name"] for entry in rank(found, 0.0, 1.0)], ["c", "a", "b"])

    def test_a_question_of_stop_words_only_is_still_answered(self) -> None:
        settings = current_settings()._replace(stop_words=True)
        self.assertTrue(Scorer(settings).candidates("what is this"))

    def test_words_that_nobody_holds_find_nothing(self) -> None:
        self.assertEqual(Scorer(current_settings()).candidates("qqzzqq ¿?"), [])
        self.assertEqual(Scorer(current_settings()).candidates(""), [])

    def test_the_order_is_the_same_in_another_process(self) -> None:
        code = (
            "from tests.test_scoring import orders\n"
            "from stdlib_helper.scoring import current_settings\n"
            "print(orders(current_settings()._replace(ngram='char3', synonym_weight=0.5)))"
        )
        printed = {
            subprocess.run(
                [sys.executable, "-c", code],
                env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for seed in ("1", "2")
        }
        self.assertEqual(len(printed), 1)
