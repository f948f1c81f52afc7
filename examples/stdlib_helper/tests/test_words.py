"""Text to terms: stems agree, identifiers come apart, n-grams mark the ends."""

from __future__ import annotations

import unittest

from stdlib_helper.words import SYNONYM_TABLE, ngrams, stem, terms_of


class WordsTest(unittest.TestCase):
    def test_forms_of_a_word_share_a_stem(self) -> None:
        for forms in (
            ("sort", "sorts", "sorted", "sorting"),
            ("directory", "directories"),
            ("file", "files"),
            ("compare", "compares", "compared", "comparing"),
            ("drop", "dropped", "dropping"),
            ("class", "classes"),
        ):
            self.assertEqual(len({stem(form) for form in forms}), 1, forms)

    def test_short_words_keep_their_letters(self) -> None:
        for word in ("is", "os", "bus", "ring", "this"):
            self.assertEqual(stem(word)[:2], word[:2])
            self.assertGreaterEqual(len(stem(word)), 2)
        self.assertEqual(stem("string"), "string")

    def test_identifiers_come_apart_at_underscores_and_capitals(self) -> None:
        self.assertEqual(terms_of("get_close_matches", False, False), ("get_close_matches",))
        self.assertEqual(
            terms_of("get_close_matches", False, True),
            ("get_close_matches", "get", "close", "matches"),
        )
        self.assertEqual(
            terms_of("HTTPBasicAuth", False, True), ("httpbasicauth", "http", "basic", "auth")
        )

    def test_ngrams_know_where_a_word_begins_and_ends(self) -> None:
        self.assertEqual(ngrams("Join", 3), {"^jo", "joi", "oin", "in$"})

    def test_synonyms_work_both_ways(self) -> None:
        self.assertIn("directory", SYNONYM_TABLE["folder"])
        self.assertIn("folder", SYNONYM_TABLE["directory"])
