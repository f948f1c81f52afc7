"""Scripts that are written without spaces between words, such as Chinese, Japanese and Thai."""

from __future__ import annotations

import re
from typing import Final

CHINESE_JAPANESE: Final = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
"""Their characters, for a character class of a regular expression."""

_DENSE = re.compile(f"[{CHINESE_JAPANESE}]")
_UNSPACED = re.compile(rf"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff{CHINESE_JAPANESE}]")


def has_words(text: str) -> bool:
    """Whether a text may have several words: a space, or a script that does without."""
    return " " in text or _UNSPACED.search(text) is not None


def word_count(text: str) -> int:
    """Number of words; of a script without spaces, two characters count as one."""
    return len(_UNSPACED.sub(" ", text).split()) + (len(_UNSPACED.findall(text)) + 1) // 2


def size_of(text: str) -> int:
    """Number of characters without white space, as in a script with an alphabet.

    A Chinese or Japanese character counts as two: the Universal Declaration of Human Rights has 2.3
    times as many in English as in Japanese, and over 3 times as many as in Chinese.
    """
    return len("".join(text.split())) + len(_DENSE.findall(text))
