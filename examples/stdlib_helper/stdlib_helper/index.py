"""The inverted indexes: for each term, the documents that hold it and how often in each field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from .cache import documents
from .documents import Document
from .words import ngrams, terms_of, words

FIELDS = ("name", "signature", "module", "summary", "details", "members")

Counts = tuple[int, ...]
"""How often a term occurs in each field, in the order of FIELDS."""


@dataclass(frozen=True)
class Index:
    """Terms of the documents under one way of cutting text into terms."""

    documents: Sequence[Document]
    postings: dict[str, list[tuple[int, Counts]]]
    """For each term, the position of each document that holds it with its counts per field."""
    relative_lengths: list[float]
    """The number of terms in each document over the mean of all documents."""


def field_texts(document: Document) -> tuple[str, ...]:
    """The text of each field of a document, in the order of FIELDS."""
    return (
        document.name.rpartition(".")[2],
        document.signature,
        f"{document.module} {document.about}",
        document.summary,
        document.details,
        document.members,
    )


def build_index(found: Sequence[Document], stemmed: bool, split: bool) -> Index:
    """Indexes documents by their words; `split` also indexes the parts of identifiers."""
    postings: dict[str, list[tuple[int, Counts]]] = {}
    lengths = []
    for position, document in enumerate(found):
        counts: dict[str, list[int]] = {}
        length = 0
        for field, text in enumerate(field_texts(document)):
            for word in words(text):
                for term in terms_of(word, stemmed, split):
                    length += 1
                    if term not in counts:
                        counts[term] = [0] * len(FIELDS)
                    counts[term][field] += 1
        lengths.append(length)
        for term, per_field in counts.items():
            postings.setdefault(term, []).append((position, tuple(per_field)))
    mean = sum(lengths) / max(len(lengths), 1) or 1.0
    return Index(found, postings, [length / mean for length in lengths])


def build_ngram_index(found: Sequence[Document], size: int) -> dict[str, list[tuple[int, float]]]:
    """For each n-gram of the documents' names, who holds it and what share of the name it is."""
    postings: dict[str, list[tuple[int, float]]] = {}
    for position, document in enumerate(found):
        grams = ngrams(document.name.rpartition(".")[2], size)
        for gram in grams:
            postings.setdefault(gram, []).append((position, 1.0 / len(grams)))
    return postings


# Every combination of the knobs that change an index: 2 × 2 and 2.
@lru_cache(maxsize=4)
def index(stemmed: bool, split: bool) -> Index:
    """The index of the standard library, built once for each way of cutting text."""
    return build_index(documents(), stemmed, split)


@lru_cache(maxsize=2)
def ngram_index(size: int) -> dict[str, list[tuple[int, float]]]:
    """The n-gram index of the standard library's names, built once for each size."""
    return build_ngram_index(documents(), size)
