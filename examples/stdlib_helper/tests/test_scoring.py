"""The scorer: every knob counts as it says, and the order never depends on chance.

Each test states the settings it holds under; the values in the source may be any.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import unittest
from functools import cache
from typing import Any
from unittest import mock

from stdlib_helper import scoring
from stdlib_helper.documents import Document
from stdlib_helper.index import build_index, build_ngram_index
from stdlib_helper.scoring import KNOBS, Candidate, Scorer, Settings, current_settings, rank

from .settings import FULL, PLAIN, stated

QUESTIONS = (
    "how do I count the words in a list",
    "copy a folder with all files",
    "parsing dates",
    "running total of numbers",
    "rename file",
    "get_close_matches for a misspelled word",
    "Counter",
)

# For each knob, a value that must give another order than the one it has in FULL.
CHANGES: dict[str, Any] = {
    "name_weight": 0.0,
    "signature_weight": 9.0,
    "module_weight": 9.0,
    "summary_weight": 0.0,
    "details_weight": 9.0,
    "members_weight": 9.0,
    "k1": 9.0,
    "b": 0.0,
    "idf_power": 0.0,
    "stem": False,
    "split_names": False,
    "stop_words": False,
    "ngram": "none",
    "ngram_weight": 9.0,
    "synonym_weight": 0.0,
    "exact_name_bonus": 0.0,
    "coverage_bonus": 0.0,
}


@cache
def digest(settings: Settings, scores: bool = False) -> str:
    """The orders of all questions, with the scores or without, short in a failure's message."""
    scorer = Scorer(settings)
    orders = [
        [
            (candidate["name"], candidate["score"] if scores else None)
            for candidate in rank(
                scorer.candidates(question), settings.exact_name_bonus, settings.coverage_bonus
            )
        ]
        for question in QUESTIONS
    ]
    return hashlib.sha256(repr(orders).encode()).hexdigest()[:12]


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
        for knob, value in CHANGES.items():
            with self.subTest(knob):
                self.assertNotEqual(digest(FULL), digest(FULL._replace(**{knob: value})))

    def test_the_settings_are_the_knobs_that_are_bound(self) -> None:
        self.assertEqual(set(KNOBS), set(Settings._fields))
        for settings in (PLAIN, FULL):
            with stated(settings):
                self.assertEqual(current_settings(), settings)

    def test_the_best_come_first_and_equal_ones_by_name(self) -> None:
        for settings in (PLAIN, FULL):
            scorer = Scorer(settings)
            for question in QUESTIONS:
                found = scorer.candidates(question)
                self.assertGreater(len(found), 1, question)
                keys = [(-entry["score"], entry["name"]) for entry in found]
                for before, after in zip(keys, keys[1:], strict=False):
                    self.assertLess(before, after, question)

    def test_rank_breaks_ties_by_name(self) -> None:
        found = rank([candidate("b", 1.0), candidate("a", 1.0), candidate("c", 2.0)], 0.0, 0.0)
        self.assertEqual([entry["name"] for entry in found], ["c", "a", "b"])

    def test_rank_adds_the_bonuses(self) -> None:
        found = [candidate("a", 1.0), candidate("b", 0.5, exact=True), candidate("c", 0.2, 1.0)]
        self.assertEqual([entry["name"] for entry in rank(found, 1.0, 0.0)], ["b", "a", "c"])
        self.assertEqual([entry["name"] for entry in rank(found, 0.0, 1.0)], ["c", "a", "b"])

    def test_a_question_of_stop_words_only_is_still_answered(self) -> None:
        for settings in (PLAIN._replace(stop_words=True), FULL):
            self.assertTrue(Scorer(settings).candidates("what is this"))

    def test_words_that_nobody_holds_find_nothing(self) -> None:
        for settings in (PLAIN, FULL):
            for question in ("qqzzqq ¿?", ""):
                found = Scorer(settings).candidates(question)
                self.assertEqual([entry["name"] for entry in found[:3]], [], question)

    def test_the_order_is_the_same_in_another_process(self) -> None:
        code = (
            "from tests.settings import FULL\n"
            "from tests.test_scoring import digest\n"
            "print(digest(FULL, scores=True))"
        )
        # Sets of texts are in another order there.
        seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
        finished = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(finished.stdout.strip(), digest(FULL, scores=True), finished.stderr[-500:])


def document(name: str, summary: str = "", **fields: str) -> Document:
    texts = {"about": "", "signature": "", "details": "", "members": "", **fields}
    return Document(name=name, kind="function", module="", summary=summary, **texts)


class SmallLibraryTest(unittest.TestCase):
    """Each knob's direction, on documents few enough to reckon by hand."""

    def scores(self, documents: list[Document], question: str, **knobs: Any) -> dict[str, float]:
        """The score of each document that is found, by name, PLAIN but for these knobs."""
        with (
            mock.patch.object(scoring, "index", lambda *how: build_index(documents, *how)),
            mock.patch.object(
                scoring, "ngram_index", lambda size: build_ngram_index(documents, size)
            ),
        ):
            found = Scorer(PLAIN._replace(**knobs)).candidates(question)
        return {entry["name"]: entry["score"] for entry in found}

    def test_the_score_is_bm25(self) -> None:
        # The lengths are 3 and 5 words, so that the first is 3/4 of the mean.
        documents = [document("a", "copy tree"), document("b", "walk or climb trees")]
        weights = {"summary_weight": 2.0, "name_weight": 0.0}
        found = self.scores(documents, "copy", k1=1.5, b=0.4, **weights)
        self.assertEqual(list(found), ["a"])
        self.assertAlmostEqual(found["a"], 2.0 * 2.5 / (2.0 + 1.5 * (0.6 + 0.4 * 3 / 4)))

    def test_each_weight_is_that_of_its_field(self) -> None:
        for field in ("signature", "summary", "details", "members", "about"):
            knob = "module_weight" if field == "about" else f"{field}_weight"
            documents = [document("a", "word"), document("b", **{field: "tree"})]
            low = self.scores(documents, "tree", **{knob: 1.0})
            high = self.scores(documents, "tree", **{knob: 5.0})
            self.assertGreater(high["b"], low["b"], field)
            self.assertEqual(self.scores(documents, "tree", **{knob: 0.0}), {}, field)
        self.assertEqual(self.scores([document("tree")], "tree", name_weight=0.0), {})

    def test_b_holds_long_documents_back(self) -> None:
        documents = [document("a", "tree of many many words"), document("b", "tree")]
        even = self.scores(documents, "tree", b=0.0)
        self.assertEqual(even["a"], even["b"])
        self.assertEqual(list(self.scores(documents, "tree", b=1.0)), ["b", "a"])

    def test_k1_lets_repeated_words_count_longer(self) -> None:
        documents = [document("a", "tree"), document("b", "tree tree tree")]
        low, high = (self.scores(documents, "tree", k1=k1) for k1 in (0.1, 9.0))
        self.assertEqual(list(low), ["b", "a"])
        self.assertLess(low["b"] / low["a"], high["b"] / high["a"])

    def test_idf_power_favours_rare_words(self) -> None:
        documents = [document("a", "tree"), document("b", "tree"), document("c", "walk")]
        even = self.scores(documents, "walk tree", idf_power=0.0)
        self.assertEqual(len(set(even.values())), 1)
        self.assertEqual(list(self.scores(documents, "walk tree", idf_power=1.0)), ["c", "a", "b"])

    def test_text_becomes_terms_as_the_knobs_say(self) -> None:
        documents = [document("a.copy_tree", "walks how")]
        for question, knob in (("walking", "stem"), ("tree", "split_names")):
            self.assertEqual(self.scores(documents, question), {}, knob)
            self.assertEqual(
                list(self.scores(documents, question, **{knob: True})), ["a.copy_tree"]
            )
        self.assertTrue(self.scores(documents, "how zebra"))
        self.assertEqual(self.scores(documents, "how zebra", stop_words=True), {})

    def test_ngrams_find_parts_of_names_at_their_weight(self) -> None:
        documents = [document("copytree"), document("walk")]
        self.assertEqual(self.scores(documents, "copier"), {})
        for ngram, shared in (("char3", 2 / 8), ("char4", 1 / 7)):  # ^co cop, ^cop
            found = self.scores(documents, "copier", ngram=ngram, ngram_weight=3.0)
            self.assertEqual(list(found), ["copytree"])
            self.assertAlmostEqual(found["copytree"], 3.0 * shared)

    def test_synonyms_count_at_their_weight(self) -> None:
        documents = [document("a", "folder"), document("b", "directory")]
        self.assertEqual(list(self.scores(documents, "folder")), ["a"])
        found = self.scores(documents, "folder", synonym_weight=0.5)
        self.assertEqual(found, {"a": 1.0, "b": 0.5})

    def test_a_candidate_says_what_it_holds(self) -> None:
        documents = [document("a.copy", "tree"), document("b.c.walk", "tree")]
        with mock.patch.object(scoring, "index", lambda *how: build_index(documents, *how)):
            first, second = Scorer(PLAIN).candidates("copy tree")
        self.assertEqual((first["coverage"], first["exact_name"], first["depth"]), (1.0, True, 1))
        self.assertEqual(
            (second["coverage"], second["exact_name"], second["depth"]), (0.5, False, 2)
        )
