"""Evaluator of whether retrieved passages support the output's sentences."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ratchet.llm.answer_text import answer_text, comparable, output_text
from ratchet.observe.dialects import messages as form
from ratchet.observe.dialects import names
from ratchet.types import InputError, Span
from ratchet.worker.evaluator import FunctionEvaluator, Judgement, Unscored

MAX_OUTPUT = 50_000
MAX_PASSAGES = 2_000_000
"""Maximum length of the output, and of all passages together, in characters."""

_KEYS = ("passages", "documents", "contexts", "context")
_TEXTS = ("content", "text", "page_content", "document", "body", "snippet")
_SENTENCE = re.compile(r"(?<=[.!?])[\"'\u2019)\]]*\s+(?=[\"'\u2018(\[]*[A-Z0-9])|\n+")
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)?")
_NAME = re.compile(r"(?<![.!?]\s)(?<!^)(?<!^[\"'(*\-])\b[A-Z][\w\u2019'-]*[a-z][\w-]*")
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|neither|nor|without|cannot|\w+n['\u2019]t)\b", re.IGNORECASE
)
_COMMON = frozenset(
    [
        "a",
        "about",
        "after",
        "all",
        "also",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "because",
        "been",
        "before",
        "being",
        "both",
        "but",
        "by",
        "can",
        "could",
        "did",
        "do",
        "does",
        "each",
        "either",
        "for",
        "from",
        "had",
        "has",
        "have",
        "he",
        "her",
        "here",
        "his",
        "how",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "may",
        "might",
        "more",
        "most",
        "much",
        "must",
        "my",
        "no",
        "nor",
        "not",
        "of",
        "on",
        "one",
        "only",
        "or",
        "other",
        "our",
        "over",
        "she",
        "should",
        "so",
        "some",
        "such",
        "than",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "those",
        "to",
        "too",
        "under",
        "until",
        "up",
        "very",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "while",
        "who",
        "will",
        "with",
        "would",
        "you",
        "your",
        "according",
        "passage",
        "text",
        "document",
        "context",
        "states",
        "mentions",
        "says",
    ]
)
_NO_CLAIM = re.compile(
    r"\?\s*$|^\W*(?:(?:I\s+)?hope|let\s+me\s+know|sure|certainly|of\s+course|hello|hi|thank|here\s+(?:is|are)|"
    r"I\s+(?:do\s+not|don['\u2019]t|cannot|can['\u2019]t|could\s+not|couldn['\u2019]t)|sorry|in\s+summary\W*$)",
    re.IGNORECASE,
)


def groundedness(*, threshold: float = 0.6) -> FunctionEvaluator:
    """The share of the output's sentences that the retrieved passages support.

    A sentence is supported if every number in it is in the passages or the input, every name too,
    and one sentence of a passage, with its neighbours, has at least `threshold` of its content
    words, and is negated like it. Questions and courtesies make no claim. It compares words: it
    rejects a paraphrase in other words, and accepts words of the passage in another relation.

    Passages are the results of the spans of retrieval, or else the task's metadata `passages`,
    `documents`, `contexts` or `context`.

    Args:
        threshold: Least share of a sentence's content words, above 0, up to 1.

    Raises:
        InputError: The threshold is out of range.
    """
    if not 0 < threshold <= 1:
        raise InputError(f"threshold = {threshold} is not above 0 and at most 1.")

    def judge(output: Any, input: Any, spans: list[Span], metadata: dict[str, Any]) -> Judgement:
        text = comparable(answer_text(output))
        if len(text) > MAX_OUTPUT:
            raise InputError(f"The output is longer than {MAX_OUTPUT} characters.")
        passages = _passages(spans, metadata)
        claims = [sentence for sentence in _sentences(text) if _is_claim(sentence)]
        if not claims:
            raise Unscored("The output makes no claims to support.")
        sources = _Sources(comparable(passages), comparable(output_text(input)[:MAX_PASSAGES]))
        unsupported = [
            (claim, why) for claim in claims if (why := sources.why_not(claim, threshold))
        ]
        note = f"{len(claims) - len(unsupported)} of {len(claims)} sentences are supported"
        if unsupported:
            claim, why = unsupported[0]
            note += f"; not: {claim[:200]!r} ({why})"
        return Judgement(1 - len(unsupported) / len(claims), note)

    return FunctionEvaluator(judge, name="groundedness", options={"threshold": threshold})


class _Sources:
    """The known texts: passages, and the input."""

    def __init__(self, passages: Sequence[str], input: str) -> None:
        everything = "\n".join((*passages, input))
        self._numbers = sorted(set(_numbers(everything)))
        self._words = {_stem(word) for word in _WORD.findall(everything)}
        self._windows: list[tuple[frozenset[str], frozenset[str], bool]] = []
        for passage in passages:
            sentences = _sentences(passage)
            stems = [_content(sentence) for sentence in sentences]
            for at, sentence in enumerate(sentences):
                near = frozenset().union(*stems[max(0, at - 1) : at + 2])
                self._windows.append((near, stems[at], _NEGATION.search(sentence) is not None))

    def why_not(self, claim: str, threshold: float) -> str:
        """Why a claim is not supported, as a clause; empty if it is."""
        for number in _numbers(claim):
            if not any(
                math.isclose(number, source_number, rel_tol=1e-9) for source_number in self._numbers
            ):
                return f"{number:.15g} is in no passage"
        for name in _NAME.findall(claim):
            if any(_stem(word) not in self._words for word in _WORD.findall(name)):
                return f"{name} is in no passage"
        content = _content(claim)
        if not content:
            return ""
        negated = _NEGATION.search(claim) is not None
        near = [
            (len(content & around), len(content & own), is_negated)
            for around, own, is_negated in self._windows
        ]
        best = max((shared for shared, _, _ in near), default=0) / len(content)
        if best < threshold:
            return f"the best passage has only {best:.0%} of its words"
        # The sentence that is most like it says whether it is so.
        like = [
            (own, is_negated)
            for shared, own, is_negated in near
            if shared >= threshold * len(content)
        ]
        most = max(own for own, _ in like)
        if any(own == most and is_negated == negated for own, is_negated in like):
            return ""
        return "the passages negate it" if not negated else "the passages do not negate it"


def _numbers(text: str) -> list[float]:
    from ratchet.evaluate.prose_numbers import numbers_in

    return [number.value for number in numbers_in(text) if math.isfinite(number.value)]


def _sentences(text: str) -> list[str]:
    return [part.strip() for part in _SENTENCE.split(text) if part and part.strip()]


def _is_claim(sentence: str) -> bool:
    return len(_WORD.findall(sentence)) >= 2 and _NO_CLAIM.search(sentence) is None


def _content(sentence: str) -> frozenset[str]:
    return frozenset(_stem(w) for w in _WORD.findall(sentence) if w.lower() not in _COMMON)


def _stem(word: str) -> str:
    """The stem of a word, without its inflection."""
    plain = re.sub(r"['\u2019]\w*$", "", word).casefold()
    plain = re.sub(r"(?:ies|es|s|ed|ing|ly)$", "", plain) if len(plain) > 4 else plain
    return plain[:7]


def _passages(spans: Sequence[Span], metadata: Mapping[str, Any]) -> list[str]:
    passages = [
        text
        for span in spans
        if names.RETRIEVAL_DOCUMENTS in span.attributes
        for text in _texts(form.decoded(span.attributes[names.RETRIEVAL_DOCUMENTS]))
    ]
    if not passages:
        documents = next((metadata[key] for key in _KEYS if metadata.get(key)), None)
        passages = _texts(documents)
    if not passages:
        raise InputError("There are no passages in retrieval spans or in the task's metadata.")
    if sum(map(len, passages)) > MAX_PASSAGES:
        raise InputError(f"The passages have more than {MAX_PASSAGES} characters.")
    return passages


def _texts(value: Any, depth: int = 0) -> list[str]:
    """The texts of documents, which may be texts, objects or lists of them."""
    if isinstance(value, str):
        return [value] if value.strip() else []
    if depth > 5:
        return []
    if isinstance(value, dict):
        fields = [value[key] for key in _TEXTS if key in value]
        return [text for part in (fields or value.values()) for text in _texts(part, depth + 1)]
    if isinstance(value, (list, tuple)):
        return [text for document in value for text in _texts(document, depth + 1)]
    return []
