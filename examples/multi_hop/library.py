"""Short paragraphs, and a search over their words."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from pathlib import Path

PARAGRAPHS: dict[str, str] = json.loads(
    Path(__file__).with_name("paragraphs.json").read_text(encoding="utf-8")
)
"""Texts by their titles."""


def words(text: str) -> set[str]:
    """Words of a text, in small letters."""
    return set(re.findall(r"\w+", text.lower()))


WORDS = {title: words(f"{title} {text}") for title, text in PARAGRAPHS.items()}
HELD = Counter(word for held in WORDS.values() for word in held)


def best_titles(query: str, count: int) -> list[str]:
    """The titles of the paragraphs that share the rarest words with a query, best first.

    A word of the title counts twice.
    """
    asked = words(query)

    def shared(title: str) -> float:
        weights = {word: math.log(len(WORDS) / HELD[word]) for word in asked & WORDS[title]}
        return sum(weights.values()) + sum(weights.get(word, 0) for word in words(title))

    return sorted(WORDS, key=lambda title: (-shared(title), title))[:count]
