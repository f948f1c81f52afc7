"""The knobs, the score of every document for a question, and the order of the best of them."""

from __future__ import annotations

from functools import lru_cache
from heapq import nlargest
from math import log
from typing import NamedTuple, TypedDict

import ratchet

from .index import Counts, index, ngram_index
from .words import STOP_WORDS, SYNONYM_TABLE, ngrams, terms_of, words

KNOBS = ratchet.params(
    "retrieval",
    # How much a word counts in each part of a document.
    name_weight=ratchet.Float(1.0, 0.0, 10.0),
    signature_weight=ratchet.Float(1.0, 0.0, 10.0),
    module_weight=ratchet.Float(1.0, 0.0, 10.0),
    summary_weight=ratchet.Float(1.0, 0.0, 10.0),
    details_weight=ratchet.Float(1.0, 0.0, 10.0),
    members_weight=ratchet.Float(1.0, 0.0, 10.0),
    # BM25: how fast repeated words stop counting, and how much long documents are held back.
    k1=ratchet.Float(1.2, 0.1, 10.0, log=True),
    b=ratchet.Float(0.0, 0.0, 1.0),
    # How much rare words count more than frequent ones: 0 is not at all, 1 the textbook's idf.
    idf_power=ratchet.Float(0.0, 0.0, 3.0),
    # How text becomes terms.
    stem=ratchet.Bool(False),
    split_names=ratchet.Bool(False),
    stop_words=ratchet.Bool(False),
    ngram=ratchet.Choice("none", ("none", "char3", "char4")),
    ngram_weight=ratchet.Float(1.0, 0.0, 10.0),
    synonym_weight=ratchet.Float(0.0, 0.0, 1.0),
    # What the order of the best adds to the score.
    exact_name_bonus=ratchet.Float(0.0, 0.0, 10.0),
    coverage_bonus=ratchet.Float(0.0, 0.0, 10.0),
)

CANDIDATES = 50


class Settings(NamedTuple):
    """The knobs' values during one question, read once: each read of a knob is resolved anew."""

    name_weight: float
    signature_weight: float
    module_weight: float
    summary_weight: float
    details_weight: float
    members_weight: float
    k1: float
    b: float
    idf_power: float
    stem: bool
    split_names: bool
    stop_words: bool
    ngram: str
    ngram_weight: float
    synonym_weight: float
    exact_name_bonus: float
    coverage_bonus: float


class Candidate(TypedDict):
    """One document that may answer the question, as `rank` sees it."""

    name: str
    kind: str
    score: float
    """The sum over the question's terms."""
    coverage: float
    """The share of the question's terms that the document holds, 0 to 1."""
    exact_name: bool
    """Whether a word of the question is the function's or class's very name."""
    depth: int
    """How many dots its name has."""


def current_settings() -> Settings:
    """The knobs as they stand for this call."""
    return Settings(*(getattr(KNOBS, knob) for knob in Settings._fields))


class Scorer:
    """Scores documents under one setting of the knobs, and remembers what each term adds."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.index = index(settings.stem, settings.split_names)
        self._added: dict[str, dict[int, float]] = {}

    def query_terms(self, question: str) -> list[str]:
        """The distinct terms of a question, in the order in which they stand there."""
        stem, split = self.settings.stem, self.settings.split_names
        found: dict[str, None] = {}
        for word in self._query_words(question):
            found.update(dict.fromkeys(terms_of(word, stem, split)))
        return list(found)

    def candidates(self, question: str) -> list[Candidate]:
        """The documents with the highest scores; equal ones in the order of their names."""
        settings = self.settings
        terms = self.query_terms(question)
        scores = [0.0] * len(self.index.documents)
        for term in terms:
            for position, added in self._added_by(term).items():
                scores[position] += added
        if settings.synonym_weight:
            for term in self._synonyms(question, terms):
                for position, added in self._added_by(term).items():
                    scores[position] += settings.synonym_weight * added
        if settings.ngram != "none":
            self._add_ngrams(question, scores)
        # Documents are sorted by name, so that the position breaks ties by name.
        best = nlargest(CANDIDATES, range(len(scores)), key=lambda at: (scores[at], -at))
        asked = {word.lower() for word in words(question)}
        return [self._candidate(at, scores[at], terms, asked) for at in best if scores[at] > 0]

    def _candidate(self, at: int, score: float, terms: list[str], asked: set[str]) -> Candidate:
        document = self.index.documents[at]
        held = sum(at in self._added_by(term) for term in terms)
        return {
            "name": document.name,
            "kind": document.kind,
            "score": score,
            "coverage": held / max(len(terms), 1),
            "exact_name": document.name.rpartition(".")[2].lower() in asked,
            "depth": document.name.count("."),
        }

    def _query_words(self, question: str) -> list[str]:
        found = words(question)
        if self.settings.stop_words:
            # A question of nothing but stop words is still a question.
            found = [word for word in found if word.lower() not in STOP_WORDS] or found
        return found

    def _synonyms(self, question: str, terms: list[str]) -> list[str]:
        stem, split = self.settings.stem, self.settings.split_names
        found: dict[str, None] = {}
        for word in self._query_words(question):
            for other in SYNONYM_TABLE.get(word.lower(), ()):
                found.update(dict.fromkeys(terms_of(other, stem, split)))
        return [term for term in found if term not in terms]

    def _added_by(self, term: str) -> dict[int, float]:
        """What a term adds to the score of each document that holds it."""
        postings = self.index.postings.get(term)
        if postings is None:
            # Not remembered: there is no end to the words that people may ask with.
            return {}
        if term not in self._added:
            self._added[term] = {at: self._weight(at, counts) for at, counts in postings}
            rarity = self._rarity(len(postings))
            if rarity != 1.0:
                self._added[term] = {at: rarity * w for at, w in self._added[term].items()}
        return self._added[term]

    def _weight(self, at: int, counts: Counts) -> float:
        name, signature, module, summary, details, members = counts
        settings = self.settings
        weighted = (
            name * settings.name_weight
            + signature * settings.signature_weight
            + module * settings.module_weight
            + summary * settings.summary_weight
            + details * settings.details_weight
            + members * settings.members_weight
        )
        length = 1.0 - settings.b + settings.b * self.index.relative_lengths[at]
        return weighted * (settings.k1 + 1.0) / (weighted + settings.k1 * length)

    def _rarity(self, holders: int) -> float:
        total = len(self.index.documents)
        idf = log(1.0 + (total - holders + 0.5) / (holders + 0.5))
        return float(idf**self.settings.idf_power)

    def _add_ngrams(self, question: str, scores: list[float]) -> None:
        size = 3 if self.settings.ngram == "char3" else 4
        postings = ngram_index(size)
        grams: set[str] = set()
        for word in self._query_words(question):
            grams |= ngrams(word, size)
        # Sorted, since the order of a set of texts, and so of the sums, differs from run to run.
        for gram in sorted(grams):
            for position, share in postings.get(gram, ()):
                scores[position] += self.settings.ngram_weight * share


# A trial of the tuner asks many questions under one setting; a few settings may alternate.
@lru_cache(maxsize=8)
def scorer(settings: Settings) -> Scorer:
    """The scorer for one setting of the knobs."""
    return Scorer(settings)


@ratchet.evolve
def rank(
    candidates: list[Candidate], exact_name_bonus: float, coverage_bonus: float
) -> list[Candidate]:
    """Orders candidates, the best answer first; equal ones by name."""

    def value(candidate: Candidate) -> float:
        bonus = exact_name_bonus if candidate["exact_name"] else 0.0
        return candidate["score"] + bonus + coverage_bonus * candidate["coverage"]

    return sorted(candidates, key=lambda candidate: (-value(candidate), candidate["name"]))
