"""Words of texts and of searches, split the same way for every database.

A database's own tokenizer would depend on its version and locale, and takes a run of Chinese or
Japanese for one word. Here each such character is a word, and so is an emoji. A search for several
of them in a row, or for a name with punctuation, is a search for a phrase.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from ratchet.types.scripts import CHINESE_JAPANESE

MAX_WORDS = 32
"""Maximum number of words in a search; further ones are ignored."""

_LONGEST = 60
"""Number of characters of a word that are compared: encoded data is one very long word."""

_ALONE = rf"{CHINESE_JAPANESE}\u2600-\u27bf\U0001f000-\U0001faff"
"""Characters that are words by themselves: Chinese and Japanese ones, symbols and emoji."""

_ASCII_WORD = re.compile(r"[a-z0-9]+")
_WORD = re.compile(rf"[{_ALONE}]|[^\W_{_ALONE}]+")
_PART = re.compile(r'"([^"]*)"?|([^\s"]+)')


class Phrase(NamedTuple):
    """Words that follow each other."""

    words: tuple[str, ...]
    is_prefix: bool
    """Whether the last word may be incomplete."""


def words_in(text: str) -> list[str]:
    """Split a text into words: lower case, without accents and punctuation."""
    if text.isascii():
        return [word[:_LONGEST] for word in _ASCII_WORD.findall(text.lower())]
    apart = unicodedata.normalize("NFKD", text.casefold())
    plain = "".join(character for character in apart if not unicodedata.combining(character))
    return [word[:_LONGEST] for word in _WORD.findall(plain)]


def phrases_of(search: str) -> list[Phrase]:
    """Read a search: words that must all occur, and phrases in double quotes.

    The last word may go on, as long as neither a space nor a quote follows it; so may each word
    before an asterisk. Nothing that a person types is an error.
    """
    phrases: list[Phrase] = []
    for part in _PART.finditer(search):
        quoted, bare = part.groups()
        words = words_in(bare if quoted is None else quoted)[: MAX_WORDS - _count(phrases)]
        if not words:
            continue
        is_open = quoted is None and (bare.endswith("*") or part.end() == len(search))
        phrases.append(Phrase(tuple(words), is_open))
    return phrases


def _count(phrases: Sequence[Phrase]) -> int:
    return sum(len(phrase.words) for phrase in phrases)


def match_text(phrases: Sequence[Phrase]) -> str:
    """The search as SQLite's FTS5 reads it. Words are letters and digits, so nothing is quoted."""
    return " AND ".join(
        f'"{" ".join(phrase.words)}"{"*" if phrase.is_prefix else ""}' for phrase in phrases
    )


def tsquery_text(phrases: Sequence[Phrase]) -> str:
    """The search as the text of a `tsquery` of Postgres."""
    return " & ".join(
        "("
        + " <-> ".join(f"'{word}'" for word in phrase.words)
        + (":*)" if phrase.is_prefix else ")")
        for phrase in phrases
    )


def tsvector_text(words: list[str]) -> str:
    """Words as the text of a `tsvector` of Postgres, with at most 16,383 places, its limit."""
    return " ".join(f"'{word}':{place}" for place, word in enumerate(words[:16_383], start=1))
