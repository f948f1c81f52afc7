"""Damage to outputs: each kind makes a right output wrong in a way typical of agents.

The kinds follow FBI (Doddapaneni et al. 2024) and the mutation of queries.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from typing import Any

from ratchet.evaluate.corruptions.corruption import Change, Material, like, on_leaf, parsed, same
from ratchet.evaluate.corruptions.oracle import QUERY

_NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?![\w])")
_UNITS: tuple[tuple[str, ...], ...] = (
    ("km", "miles", "m", "cm", "mm"),
    ("kg", "lb", "g", "mg", "tons"),
    ("EUR", "USD", "GBP", "CHF", "JPY"),
    ("€", "$", "£"),
    ("seconds", "minutes", "hours", "days", "weeks"),
    ("second", "minute", "hour", "day", "week"),
    ("ms", "s", "min", "h"),
    ("°C", "°F"),
    ("KB", "MB", "GB", "TB"),
    ("million", "billion", "thousand"),
    ("percent", "permille"),
    ("litres", "gallons"),
)
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_YEAR = re.compile(r"\b(19|20)\d\d\b")
_DAY = re.compile(r"\b(\d{4})-(\d\d)-(\d\d)\b")
_VERB = re.compile(r"\b(is|are|was|were|can|does|has|have|will|should|must)\b( not\b)?", re.I)
_OPPOSITES = (
    *(("yes", "no"), ("true", "false"), ("always", "never"), ("valid", "invalid")),
    *(("approved", "rejected"), ("positive", "negative"), ("open", "closed"), ("all", "none")),
)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_NAME = re.compile(r"(?<![.!?]\s)(?<!^)\b[A-Z][a-z]{2,}\b|\"[^\"]{2,40}\"|'[^']{2,40}'")
_OPERATORS = (
    *((">=", "<"), ("<=", ">"), ("<>", "="), ("!=", "="), (">", "<="), ("<", ">="), ("=", "<>")),
    *((" AND ", " OR "), (" OR ", " AND "), ("ASC", "DESC"), ("DESC", "ASC")),
    *(("MAX(", "MIN("), ("MIN(", "MAX("), ("SUM(", "AVG("), ("AVG(", "SUM("), ("COUNT(", "SUM(")),
    *(("LEFT JOIN", "JOIN"), ("DISTINCT ", ""), ("UNION ALL", "UNION")),
)

REFUSAL_TEXTS = (
    "I'm sorry, but I cannot help with that.",
    "As an AI language model, I am unable to answer this question.",
    "I do not have enough information to answer.",
)


def numbers(material: Material, rng: random.Random) -> Any:
    """Replace a number with another."""

    def other(leaf: Any) -> Any:
        if isinstance(leaf, str):
            return _replaced(_NUMBER, leaf, lambda number: _other_number(number, rng), rng)
        return leaf + rng.choice((-1, 1)) * (max(1, abs(leaf) // 7 or 1) + rng.randint(0, 2))

    return on_leaf(material.output, other, rng, wants=(int, float, str))


def units(material: Material, rng: random.Random) -> Any:
    """Replace a unit with another of the same kind."""

    def other(leaf: str) -> str:
        for family in _UNITS:
            for unit in family:
                pattern = rf"(?<![A-Za-z]){re.escape(unit)}(?![A-Za-z])"
                if match := re.search(pattern, leaf):
                    swapped = rng.choice(
                        [alternative for alternative in family if alternative != unit]
                    )
                    return leaf[: match.start()] + swapped + leaf[match.end() :]
        return leaf

    return on_leaf(material.output, other, rng, wants=str)


def negation(material: Material, rng: random.Random) -> Any:
    """Reverse the meaning: add or remove a negation, swap yes and no, or true and false."""

    def flipped(leaf: Any) -> Any:
        if isinstance(leaf, bool):
            return not leaf
        for word, antonym in _OPPOSITES:
            for before, after in ((word, antonym), (antonym, word)):
                if match := re.search(rf"\b{before}\b", leaf, re.I):
                    opposite = _cased(after, match[0])
                    return leaf[: match.start()] + opposite + leaf[match.end() :]
        return _VERB.sub(lambda m: m[1] if m[2] else f"{m[1]} not", leaf, count=1)

    return on_leaf(material.output, flipped, rng, wants=(bool, str))


def dropped(material: Material, rng: random.Random) -> Any:
    """Remove a field, an item or a sentence."""
    value = parsed(material.output)
    if isinstance(value, dict) and len(value) > 1:
        gone = rng.choice(list(value))
        return like({k: v for k, v in value.items() if k != gone}, material.output)
    if isinstance(value, list) and len(value) > 1:
        gone = rng.randrange(len(value))
        return like([v for n, v in enumerate(value) if n != gone], material.output)
    if value is not None or not isinstance(material.output, str):
        return material.output
    sentences = [sentence for sentence in _SENTENCE.split(material.output) if sentence.strip()]
    if len(sentences) < 2:
        return material.output
    gone = rng.randrange(len(sentences))
    return " ".join(sentence for n, sentence in enumerate(sentences) if n != gone)


def truncated(material: Material, rng: random.Random) -> Any:
    """Keep only the first part, as if the model reached its token limit."""
    value = material.output
    if isinstance(value, str) and len(value) > 3:
        return value[: max(1, int(len(value) * rng.uniform(0.25, 0.6)))]
    if isinstance(value, list) and len(value) > 1:
        return value[: len(value) // 2]
    return value


def empty(material: Material, rng: random.Random) -> Any:
    """An empty value of the output's type."""
    value = material.output
    return type(value)() if isinstance(value, (str, list, dict)) else None


def refusal(material: Material, rng: random.Random) -> Any:
    """A refusal."""
    return rng.choice(REFUSAL_TEXTS)


def entities(material: Material, rng: random.Random) -> Any:
    """Replace a name or quoted text with that of another task."""
    names = sorted({m for output in material.others for m in _NAME.findall(_plain(output))})

    def other(leaf: str) -> str:
        return _replaced(
            _NAME, leaf, lambda name: rng.choice([o for o in names if o != name] or [name]), rng
        )

    return on_leaf(material.output, other, rng, wants=str)


def other_answer(material: Material, rng: random.Random) -> Any:
    """The output for another task: well-formed, plausible and wrong; in half of the cases, of
    about the same length.
    """
    different = [output for output in material.others if not same(output, material.output)]
    if not different:
        return material.output
    if rng.random() < 0.5:
        size = len(_plain(material.output).strip())
        distance = [abs(len(_plain(output).strip()) - size) for output in different]
        closest = min(distance)
        different = [output for output, d in zip(different, distance, strict=True) if d == closest]
    return rng.choice(different)


def reordered(material: Material, rng: random.Random) -> Any:
    """Reverse the items, lines or sentences."""
    value = parsed(material.output)
    if isinstance(value, list):
        return like(value[::-1], material.output)
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, list) and len(item) > 1:
                return like({**value, key: item[::-1]}, material.output)
        return material.output
    if not isinstance(material.output, str):
        return material.output
    parts = [part for part in _SENTENCE.split(material.output) if part.strip()]
    return "\n".join(parts[::-1]) if len(parts) > 2 else material.output


def stale_date(material: Material, rng: random.Random) -> Any:
    """An earlier date."""

    def earlier(leaf: str) -> str:
        back = rng.randint(1, 3)
        if _DAY.search(leaf):
            return _DAY.sub(lambda m: f"{int(m[1]) - back}-{m[2]}-{m[3]}", leaf, count=1)
        for month in _MONTHS:
            if re.search(rf"\b{month}\b", leaf):
                before = _MONTHS[_MONTHS.index(month) - back]
                return re.sub(rf"\b{month}\b", before, leaf, count=1)
        return _YEAR.sub(lambda m: str(int(m[0]) - back), leaf, count=1)

    return on_leaf(material.output, earlier, rng, wants=str)


def broken_json(material: Material, rng: random.Random) -> Any:
    """JSON text that no parser accepts."""
    value = parsed(material.output)
    if value is None:
        return material.output
    text = json.dumps(value, ensure_ascii=False)
    return text[:-1] if rng.random() < 0.5 else text.replace('"', "", 1).replace(":", "=", 1)


def query(material: Material, rng: random.Random) -> Any:
    """A mutant of a query, with another comparison, join, order or aggregate."""
    text = material.output
    if not isinstance(text, str) or not QUERY.match(text):
        return text
    fitting = [(a, b) for a, b in _OPERATORS if a in text or a.lower() in text]
    if not fitting:
        return text
    before, after = rng.choice(fitting)
    operator = before if before in text else before.lower()
    return text.replace(operator, after if operator == before else after.lower(), 1)


DAMAGES: Mapping[str, Change] = {
    "numbers": numbers,
    "units": units,
    "negation": negation,
    "dropped": dropped,
    "truncated": truncated,
    "empty": empty,
    "refusal": refusal,
    "entities": entities,
    "other answer": other_answer,
    "reordered": reordered,
    "stale date": stale_date,
    "broken JSON": broken_json,
    "query": query,
}
"""Kinds of damage by name."""

ALWAYS_WRONG = frozenset({"empty", "refusal", "other answer", "broken JSON"})
"""Kinds that make any right output wrong, even without an expected answer to compare with."""


def _replaced(
    pattern: re.Pattern[str], text: str, replace: Callable[[str], str], rng: random.Random
) -> str:
    """The text with one match replaced; in half of the cases the last one."""
    matches = list(pattern.finditer(text))
    if not matches:
        return text
    # Answers end with their result.
    match = matches[-1] if rng.random() < 0.5 else rng.choice(matches)
    return text[: match.start()] + replace(match[0]) + text[match.end() :]


def _other_number(text: str, rng: random.Random) -> str:
    digits = [n for n, character in enumerate(text) if character.isdigit()]
    place = rng.choice(digits[:2])
    changed = rng.choice([d for d in "123456789" if d != text[place]])
    return text[:place] + changed + text[place + 1 :]


def _cased(word: str, model: str) -> str:
    if model.isupper() and len(model) > 1:
        return word.upper()
    return word.capitalize() if model[:1].isupper() else word


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
