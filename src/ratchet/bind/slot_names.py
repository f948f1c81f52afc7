"""Derives names for the slots of a proposed template from the surrounding words."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence

_LABEL = re.compile(r"([^\W\d_][\w /-]{0,40}?)(?:\*\*|__)?[ \t]*[:=](?:\*\*)?[ \t]*\n*[\"'`(\[<]*$")
_TAG = re.compile(r"<([A-Za-z][\w-]{0,40})(?:\s[^<>]*)?>\s*$")
_HEADING = re.compile(r"(?:^|\n)#{1,6} *([^\W\d_][\w /-]{0,40}?) *:?\n+$")
_WORD_BEFORE = re.compile(r"([^\W\d_]+) [\"'`(]*$")

_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("email", re.compile(r"[^\s@]+@[^\s@]+\.\w+")),
    ("url", re.compile(r"https?:?(//)?\S*|//\S+")),
    ("time", re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?( ?[AaPp][Mm])?")),
    ("date", re.compile(r"\d{4}-\d{2}-\d{2}([T ][\d:.+Z-]+)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}")),
    (
        "date",
        re.compile(
            r"(?i)(?=.*\d)(?=.*(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))[\w ,.:+-]{5,40}"
        ),
    ),
    ("number", re.compile(r"[+-]?\d+([.,]\d+)*%?")),
)

_NOUN = re.compile(
    r"account|agent|app|application|assistant|city|company|context|country|"
    r"currency|customer|date|day|documents|domain|email|goal|id|language|locale|"
    r"location|model|month|name|number|order|organization|persona|plan|policy|"
    r"product|project|query|question|region|role|store|task|team|tenant|time|"
    r"timezone|title|today|tone|topic|url|user|username|version|year"
)
"""Words that describe the next value even without a colon: `the user Ann`."""


def slot_names(pieces: Sequence[str], values: Sequence[Sequence[str]]) -> list[str]:
    """Return a unique name for each slot.

    Args:
        pieces: Constant text before, between and after the slots.
        values: Values of each slot.
    """
    names: list[str] = []
    for number, examples in enumerate(values):
        base = _name(pieces[number], examples)
        candidates = (
            base or "slot_1",
            *(f"{base or 'slot'}_{n}" for n in range(2, len(values) + 2)),
        )
        names.append(next(name for name in candidates if name not in names))
    return names


def is_labelled(before: str) -> bool:
    """Whether a text ends with a label, tag or heading, so that a slot's value belongs after it."""
    return _label(before) is not None


def _label(before: str) -> str | None:
    for pattern in (_TAG, _HEADING, _LABEL):
        match = pattern.search(before[-120:])
        if match:
            return match[1]
    return None


def _name(before: str, examples: Sequence[str]) -> str | None:
    label = _label(before)
    if label is not None:
        return _identifier(label)
    kind = _kind(examples)
    if kind:
        return kind
    word = _WORD_BEFORE.search(before[-60:])
    return word[1].lower() if word and _NOUN.fullmatch(word[1].lower()) else None


def _kind(examples: Sequence[str]) -> str | None:
    full = [example.strip() for example in examples if example.strip()]
    for name, pattern in _KINDS:
        if full and all(pattern.fullmatch(example) for example in full):
            return name
    return None


def _identifier(label: str) -> str | None:
    words = [word for word in re.split(r"[\W_]+", label.lower()) if word][-3:]
    while words and words[0] in {"a", "an", "the", "is", "are", "and", "of", "your", "their"}:
        del words[0]
    name = "_".join(words)
    if not name.isidentifier():
        return None
    return f"{name}_" if keyword.iskeyword(name) else name
