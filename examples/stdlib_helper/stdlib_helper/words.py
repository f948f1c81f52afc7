"""Turns text into terms: words, parts of identifiers, stems, character n-grams, synonyms."""

from __future__ import annotations

import re
from functools import lru_cache

WORD = re.compile(r"\w+")
PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")

STOP_WORDS = frozenset(
    "a about after all also an and any are as at be been before being between both but by can "
    "could d did do does doing don done each either else ever every for from get gets getting "
    "give given gives go goes going got had has have having he her here him his how i if in "
    "into is isn it its itself just like ll make makes making me more most much must my need "
    "needs no nor not now of on once one only or other our out over own please python re s same "
    "she should so some something such t than that the their them then there these they thing "
    "this those through to too under until up use used uses using ve very via want wants was way "
    "ways we were what whats when where which while who whose why will with without would you "
    "your".split()
)

# Words that mean the same to a programmer; each group is one meaning.
SYNONYMS = (
    "file path filename",
    "folder directory dir",
    "delete remove erase unlink",
    "copy duplicate clone",
    "make create new",
    "list sequence array",
    "dict dictionary mapping map",
    "string text str",
    "number numeric int integer",
    "begin start launch",
    "stop end terminate kill",
    "run execute",
    "read load parse",
    "write save dump store",
    "convert transform turn",
    "sort order sorted",
    "unique distinct duplicates",
    "merge combine join concatenate",
    "break split divide",
    "random shuffle",
    "time clock timestamp",
    "wait sleep pause delay",
    "biggest largest maximum max",
    "smallest minimum min lowest",
    "mean average",
    "remember cache memoize",
    "length size count",
    "check test whether",
    "url link address",
    "web http internet",
    "temporary temp",
    "compress zip archive",
    "hash digest checksum",
    "password secret token",
    "thread parallel concurrent",
    "process subprocess command",
    "error exception",
    "print display show output",
    "find search locate",
    "compare diff difference",
    "function callable",
    "object instance",
    "arguments parameters options",
    "current working",
    "round truncate",
    "loop iterate iterable iterator",
)


def _synonym_table() -> dict[str, tuple[str, ...]]:
    table: dict[str, list[str]] = {}
    for group in SYNONYMS:
        words = group.split()
        for word in words:
            table.setdefault(word, []).extend(other for other in words if other != word)
    return {word: tuple(sorted(set(others))) for word, others in table.items()}


SYNONYM_TABLE = _synonym_table()

SUFFIXES = (
    ("ies", "y"),
    ("sses", "ss"),
    ("ations", "ate"),
    ("ation", "ate"),
    ("ings", ""),
    ("ing", ""),
    ("ers", ""),
    ("er", ""),
    ("ors", ""),
    ("or", ""),
    ("ed", ""),
    ("ly", ""),
    ("es", ""),
    ("s", ""),
    ("e", ""),
)


VOWELS = frozenset("aeiouy")


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """Strips the endings of a word until its forms agree: `sorting`, `sorted`, `sorts` → `sort`."""
    for suffix, ending in SUFFIXES:
        rest = word.removesuffix(suffix)
        # What is left must be able to be a word: `string` is no form of `str`; `ss` is no plural.
        sound = len(rest) >= 3 and not VOWELS.isdisjoint(rest)
        if rest != word and sound and not (suffix == "s" and rest.endswith("s")):
            word = rest + ending
            break
    word = word.removesuffix("e") if len(word) > 3 else word
    # `running`, `dropped`: the doubled consonant came with the ending.
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeilosz":
        word = word[:-1]
    return word


@lru_cache(maxsize=200_000)
def terms_of(word: str, stemmed: bool, split: bool) -> tuple[str, ...]:
    """The index terms of one written word: itself in lower case, and its parts when split."""
    lower = word.lower()
    found = [lower]
    if split:
        found += [part.lower() for part in PART.findall(word) if part.lower() != lower]
    return tuple(dict.fromkeys(stem(term) for term in found)) if stemmed else tuple(found)


def words(text: str) -> list[str]:
    """The words of a text as they are written, underscores kept."""
    return WORD.findall(text)


def ngrams(word: str, size: int) -> set[str]:
    """The character n-grams of a word, its two ends marked, so that prefixes count."""
    marked = f"^{word.lower()}$"
    return {marked[at : at + size] for at in range(len(marked) - size + 1)}
