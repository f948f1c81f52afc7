"""Finds the number that is a text's answer: a marked one, a conclusion's, or the last."""

from __future__ import annotations

import re
from dataclasses import replace

from ratchet.evaluate.prose_expressions import expressions_in, has_variable, plain_mathematics
from ratchet.evaluate.prose_numbers import ProseNumber, written_alike

MAX_TEXT = 20_000
"""How many characters are read; of a longer text the last ones, where answers usually are."""

_AT_ONCE = 40
"""Maximum number of characters between a marker and its number."""

_HEDGE = re.compile(
    r"(?:[\W\d_]|about|approximately|approx|around|roughly|nearly|almost|exactly|just|only|simply|"
    r"the\s+(?:number|total|sum|value)|is|a|an|over|total|of|USD|EUR|GBP|[a-z]\s*=)*",
    re.IGNORECASE,
)

_BOXED = re.compile(r"\\boxed\s*\{")
_HASHES = re.compile(r"^\s*####\s*", re.MULTILINE)
_ANSWER = re.compile(
    r"\b(?:final\s+)?(?:answer|solution|result)\b(?:[^.\n:=]|\.(?=\d)){0,80}?"
    r"(?:\bis\b|\bare\b|\bwas\b|[:=\u2192]|\bequals\b|\bcomes\s+to\b)\s*",
    re.IGNORECASE,
)
_CONCLUSION = re.compile(
    r"\b(?:therefore|thus|hence|in\s+total|altogether|in\s+all|"
    r"(?P<says>equals|comes?\s+to|amounts?\s+to|adds?\s+up\s+to|totals|"
    r"total\s+of\b|(?:total|sum|difference|product|average|mean|median)\b[^.\n]{0,60}?"
    r"(?:\b(?:is|are|was|were)\b|:)))",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[\W]*[A-Z\\])|\n+")
_MARKUP = re.compile(
    r"\*{1,3}|`|(?<!\w)__?(?=\S)|(?<=\S)__?(?!\w)|(?<![\w\d])\$(?!\d|-|\.)|(?<=[\d}])\$"
)


def answer_in(text: str, *, decimal_comma: bool = False) -> ProseNumber | None:
    """The number that is a text's answer; None if it holds no number.

    That in the last `\\boxed{}`, behind `####`, or behind the last "answer is" or "answer:"; else
    that of the last conclusion ("in total", "comes to"), or of the last sentence with a number. Of
    several in a sentence, the one after its last "=", or else the last.

    Args:
        text: The text.
        decimal_comma: Commas are decimal, as in "1.234,50".
    """
    text = _plain(text[-MAX_TEXT:])
    numbers = expressions_in(text, decimal_comma=decimal_comma)
    if not numbers:
        return None
    start, end = _marked(text)
    if start >= 0:
        candidates = [n for n in numbers if n.start >= start and (end < 0 or n.end <= end)]
        if candidates:
            chosen = _chosen_after(text, candidates, start, end)
            variable = end >= 0 and has_variable(text, chosen)
            return replace(chosen, plain=False) if variable else chosen
    sentences = _sentences(text)
    strong = [n for n in numbers if not n.weak] or numbers
    if _CONCLUSION.search(text):
        for low, high in reversed(sentences):
            match = _CONCLUSION.search(text, low, high)
            if match is not None:
                listed = text[match.end() : match.end() + 1] == ":" and not match["says"]
                after = [] if listed else [n for n in strong if match.end() <= n.start < high]
                candidates = after or [
                    n for n in strong if low <= n.start < (match.start() if listed else high)
                ]
                if candidates and match["says"] and after and "=" not in text[low:high]:
                    return after[0]
                if candidates:
                    return _last_of(text, candidates, low, high)
    for low, high in reversed(sentences):
        candidates = [n for n in strong if low <= n.start < high]
        if candidates:
            return _last_of(text, candidates, low, high)
    return strong[-1]


def _plain(text: str) -> str:
    return _MARKUP.sub("", plain_mathematics(written_alike(text)))


def _marked(text: str) -> tuple[int, int]:
    """Start and end of the part that the text marks as its answer; -1 for no start, or no end."""
    boxed = [match.end() for match in _BOXED.finditer(text)]
    if boxed:
        return boxed[-1], _closing(text, boxed[-1])
    hashes = [match.end() for match in _HASHES.finditer(text)]
    if hashes:
        return hashes[-1], -1
    answers = list(_ANSWER.finditer(text))
    final = [match for match in answers if match[0].lower().startswith("final")]
    labelled = [match for match in answers if re.match(r"(?:final\s+)?answer", match[0], re.I)]
    chosen = final or labelled or answers
    return (chosen[-1].end(), -1) if chosen else (-1, -1)


def _closing(text: str, start: int) -> int:
    """Position of the closing brace of an open one; the end of the text if there is none."""
    depth = 1
    for brace in re.finditer(r"[{}]", text[start:]):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return start + brace.start()
    return len(text)


def _chosen_after(text: str, candidates: list[ProseNumber], start: int, end: int) -> ProseNumber:
    """The answer after a marker: the number directly after it, or the sentence's."""
    low, high = next(
        ((low, high) for low, high in _sentences(text) if low <= candidates[0].start < high),
        (start, len(text)),
    )
    low, high = max(low, start), high if end < 0 else end
    within = [n for n in candidates if low <= n.start < high] or candidates
    strong = [n for n in within if not n.weak] or within
    first = strong[0]
    at_once = first.start - low <= _AT_ONCE and _HEDGE.fullmatch(text, low, first.start)
    if at_once and text.find("=", first.end, high) < 0:
        return first
    return _last_of(text, strong, low, high)


def _last_of(text: str, candidates: list[ProseNumber], low: int, high: int) -> ProseNumber:
    """The answer of a sentence: after its last "=", or the last outside trailing brackets."""
    equal = max(text.rfind("=", low, high), text.rfind("≈", low, high))
    after = [n for n in candidates if n.start > equal] if equal >= 0 else []
    if after:
        return after[0]
    digits = [n for n in candidates if not n.in_words] or candidates
    opened = text.rfind("(", low, high)
    outside = [n for n in digits if n.end <= opened] if opened >= 0 else []
    return (outside or digits)[-1]


def _sentences(text: str) -> list[tuple[int, int]]:
    sentences, low = [], 0
    for match in _SENTENCE.finditer(text):
        sentences.append((low, match.start()))
        low = match.end()
    return [*sentences, (low, len(text))]
