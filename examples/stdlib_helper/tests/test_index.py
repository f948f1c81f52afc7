"""The inverted indexes: who holds a term, how often and where."""

from __future__ import annotations

import unittest

from stdlib_helper.documents import Document
from stdlib_helper.index import FIELDS, build_index, build_ngram_index


def document(name: str, summary: str = "", details: str = "") -> Document:
    module = name.rpartition(".")[0]
    return Document(name, "function", module, "", "", summary, details, "")


class IndexTest(unittest.TestCase):
    def setUp(self) -> None:
        self.documents = [
            document("a.copy_tree", "Copy a tree.", "Copies files; a copy keeps modes."),
            document("b.walk", "Walk a tree."),
        ]

    def test_a_posting_counts_a_term_in_each_field(self) -> None:
        index = build_index(self.documents, stemmed=False, split=False)
        ((position, counts),) = index.postings["copy"]
        self.assertEqual(position, 0)
        self.assertEqual(dict(zip(FIELDS, counts, strict=True))["summary"], 1)
        self.assertEqual(dict(zip(FIELDS, counts, strict=True))["details"], 1)
        self.assertEqual([at for at, _ in index.postings["tree"]], [0, 1])

    def test_stems_and_parts_of_names_are_indexed_when_asked(self) -> None:
        plain = build_index(self.documents, stemmed=False, split=False)
        self.assertEqual(sum(plain.postings["copy"][0][1]), 2)
        both = build_index(self.documents, stemmed=True, split=True)
        self.assertEqual(sum(both.postings["copy"][0][1]), 4)

    def test_relative_lengths_have_the_mean_one(self) -> None:
        lengths = build_index(self.documents, stemmed=False, split=False).relative_lengths
        self.assertAlmostEqual(sum(lengths) / len(lengths), 1.0)
        self.assertGreater(lengths[0], lengths[1])

    def test_no_documents_make_an_empty_index(self) -> None:
        self.assertEqual(build_index([], stemmed=True, split=True).postings, {})

    def test_building_twice_gives_the_same(self) -> None:
        for stemmed in (False, True):
            first = build_index(self.documents, stemmed, split=True)
            again = build_index(self.documents, stemmed, split=True)
            self.assertEqual(first, again)
            self.assertEqual(list(first.postings), list(again.postings))

    def test_ngrams_hold_shares_of_a_name(self) -> None:
        postings = build_ngram_index(self.documents, 3)
        self.assertEqual([at for at, _ in postings["wal"]], [1])
        self.assertAlmostEqual(
            sum(share for held in postings.values() for at, share in held if at == 1), 1.0
        )
