"""Tells in which language a text is, as far as prompts need it: whether an edit changed it."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

_WORDS: dict[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "English": "the of and to is in that you are for with if not this be or it an your must",
        "German": "der die das und ist nicht ein eine mit auf sie den dem zu wenn auch du für",
        "French": "le la les et est une des que pour dans vous pas sur avec du qui au ou si votre",
        "Spanish": "el la los las y es un una que para en con por no del al se su cada debe si",
        "Italian": "il lo gli e è una che per non con del della di se sono deve come un devi nel",
        "Portuguese": "o os as e é uma que para não com do da em se por deve como um você seu",
        "Dutch": "de het een en is niet dat voor met van op je als zijn moet ook geen bij te aan",
        "Polish": "i w nie na to jest się z do że jak jeśli musi dla ale oraz lub przez po od",
        "Swedish": "och att det är en som på inte för med av till den om du ett har eller ska kan",
        "Turkish": "ve bir bu için ile de da değil ne olarak en çok gibi her daha sonra eğer ya mi",
    }.items()
}
_LETTERS = re.compile(r"[^\W\d_]+")

_TOGETHER = {"HIRAGANA": "JAPANESE", "KATAKANA": "JAPANESE", "CJK": "JAPANESE"}
"""Scripts that one text has at once. Chinese counts as Japanese: both are far from the others."""

ENOUGH = 6
"""Words below which nothing is said."""


def language(text: str) -> str | None:
    """The language or the script of a text; None when it is too short, or mixed, to say."""
    words = _LETTERS.findall(text.lower())
    letters = Counter(_script(letter) for word in words for letter in word)
    total = letters.total()
    if not total:
        return None
    script, most = letters.most_common(1)[0]
    if script != "LATIN":
        return script.title() if most > 0.5 * total else None
    if len(words) < ENOUGH:
        return None
    shares = {
        name: sum(word in common for word in words) / len(words) for name, common in _WORDS.items()
    }
    best, second = sorted(shares, key=lambda name: -shares[name])[:2]
    clear = shares[best] >= 0.12 and shares[best] >= 1.4 * shares[second]
    return best if clear else None


def changed(before: str, after: str) -> str:
    """What language a text was changed to; empty when it was not, or nobody can say."""
    old, new = language(before), language(after)
    if old is None and new is not None and new not in _WORDS and _is_latin(before):
        old = "Latin"
    if old is None or new is None or old == new:
        return ""
    return "Chinese or Japanese" if new == "Japanese" else new


def _is_latin(text: str) -> bool:
    letters = [_script(letter) for word in _LETTERS.findall(text) for letter in word]
    return bool(letters) and letters.count("LATIN") > 0.8 * len(letters)


def _script(letter: str) -> str:
    script = unicodedata.name(letter, "UNKNOWN").split(" ", 1)[0]
    return _TOGETHER.get(script, script)
