"""Prefilter: a fast check whether any rule could match a text.

Most texts hold no secret, and a server receives thousands of spans a second. So the prefilter uses
only operations that cost a nanosecond a character or less: searches for one character or one word,
which the C library does, and byte translation tables. Lower-case letters, most of a text, are
removed before digits and signs are checked; a hit, which may come from characters that were not
adjacent, is checked again on the whole text. Regular expressions on the whole text begin with a
single rare letter, to which the engine jumps.
"""

from __future__ import annotations

import re
import string

from ratchet.observe.redaction.rules.scanned import DIGIT_SEPARATORS, DIGIT_TABLE, WORD_TABLE

_LEFT_OUT = string.ascii_lowercase.encode()

_SIGNS = b"@%\\&+"
_NO_SIGNS = bytes(byte for byte in range(256) if byte not in _SIGNS)

_LONG_WORD = b"a" * 17
"""A key, or text in base64; words are rarely this long."""

_NO_SMALL_LETTERS = b"a" * 7
"""Upper-case letters and digits of such a word."""

_MANY_DIGITS = b"0" * 9
"""Digits of a card, account or telephone number, however grouped; a date has eight."""

_BETWEEN = (
    rb"""(?:[_\-]\w{0,12})?["'`*\\)\]]{0,80}(?:\s{0,3}[:=]|\s{1,3}(?:is|lautet|ist|es|est|was)\s)"""
)
"""Between the name of a secret and its value; also in nested JSON, whose quotes have many
backslashes."""

_PERCENT = re.compile(rb"%[0-9A-Fa-f]{2}").search
_ESCAPE = re.compile(rb"\\(?:u[0-9a-fA-F]{4}|x[2-7])").search
_INTERNATIONAL = re.compile(rb"\+ ?\(?[0-9]").search
_FOUR = re.compile(rb"\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]").search
_SIX = re.compile(rb":[0-9A-Fa-f]{0,4}:[0-9A-Fa-f]").search
_COLONS = re.compile(rb":[0-9A-F]{0,4}:").search
_AT_WORD = re.compile(rb"[(\[] ?[aA][tT] ?[)\]]").search

_WORDS_FOR_SECRETS = tuple(
    re.compile(pattern).search
    for pattern in (
        rb"w(?:(?<=ssw)(?:or[dt]|d)|(?<=pw)d)" + _BETWEEN,
        rb"k(?:ey" + _BETWEEN + rb"|(?<=ok)(?:en|ies?)" + _BETWEEN + rb"|(?<=ak)ia|(?<=sk)-)",
        rb"z(?:(?<=authoriz)ation|(?<=aiz)a)",
        rb"c(?:(?<=sec)ret|redentials?|vv2?|vc)" + _BETWEEN,
        rb"b(?:earer|asic)[\s:\"'=\\]",
        rb"p(?:(?<=glp)at-|(?<=ssp)hrase" + _BETWEEN + rb")",
    )
)
"""Applied to lower case. Each begins with the rarest letter of its words."""


def may_match(text: str) -> bool:
    """Whether a rule may match a text, which is the result of `folded_visible`."""
    raw = text.encode("utf-8", "surrogatepass")
    if _has_indicator(raw, raw.translate(None, _LEFT_OUT)):
        return True
    # A cut text may end within a secret; the usual note of the cut is not ASCII.
    if (len(raw) > len(text) and b"more characters]" in raw) or b"characters left out" in raw:
        return True
    small = raw.lower()
    w, k, z, c, b, p = _WORDS_FOR_SECRETS
    return bool(w(small) or k(small) or c(small) or b(small) or p(small) or z(small))


def _has_indicator(raw: bytes, rare: bytes) -> bool:
    """Whether digits, upper-case letters or signs of a text indicate a secret.

    Args:
        raw: The text.
        rare: The same without lower-case letters.
    """
    signs = rare.translate(None, _NO_SIGNS)
    return bool(
        (signs and _has_sign(raw, signs))
        or b"-----" in rare
        or (
            _MANY_DIGITS in rare.translate(DIGIT_TABLE, DIGIT_SEPARATORS)
            and _MANY_DIGITS in raw.translate(DIGIT_TABLE, DIGIT_SEPARATORS)
        )
        or (
            _NO_SMALL_LETTERS in rare.translate(WORD_TABLE)
            and _LONG_WORD in raw.translate(WORD_TABLE)
        )
        or (b"." in rare and _FOUR(rare) and _FOUR(raw))
        or (b":" in rare and _COLONS(rare) and _SIX(raw))
        or ((b"()" in rare or b"[]" in rare or b"(  )" in rare or b"AT" in rare) and _AT_WORD(raw))
    )


def _has_sign(raw: bytes, signs: bytes) -> bool:
    return bool(
        b"@" in signs
        or (b"%" in signs and _PERCENT(raw))
        or (b"\\" in signs and _ESCAPE(raw))
        or (b"&" in signs and b"&#" in raw)
        or (b"+" in signs and _INTERNATIONAL(raw))
    )
