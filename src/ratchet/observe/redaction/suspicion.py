"""Suspicion: whether a text may hold anything at all that a rule could find.

Most text holds nothing, and a server sees thousands of spans a second. So what all rules have in
common is looked for first, only with what costs a nanosecond a character or less: searches for one
character or one word, which the C library does, and tables of bytes. Regular expressions here begin
with a single literal character, to which their engine jumps.
"""

from __future__ import annotations

import re

from ratchet.observe.redaction.rules.sight import DIGITS, SEPARATORS, WORDS

_LONG_WORD = b"a" * 17
"""A key, or text in base64; words are seldom as long."""

_MANY_DIGITS = b"0" * 9
"""Of a card, an account or a telephone number, however it is grouped; a date has eight."""

_BETWEEN = (
    rb"""(?:[_\-]\w{0,12})?["'`*\\)\]]{0,4}(?:\s{0,3}[:=]|\s{1,3}(?:is|lautet|ist|es|est|was)\s)"""
)
"""What stands between the name of a secret and the secret."""

_PERCENT = re.compile(rb"%[0-9A-Fa-f]{2}").search
_ESCAPE = re.compile(rb"\\(?:u[0-9a-fA-F]{4}|x[2-7])").search
_INTERNATIONAL = re.compile(rb"\+ ?\(?[0-9]").search
_FOUR = re.compile(rb"\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]").search
_SIX = re.compile(rb":[0-9A-Fa-f]{0,4}:[0-9A-Fa-f]").search
_AT_WORD = re.compile(rb"\(\s?at\s?\)").search
_AT_BRACKET = re.compile(rb"\[\s?at\s?\]").search

_WORDS_FOR_SECRETS = tuple(
    re.compile(pattern).search
    for pattern in (
        rb"-(?:(?<=sk-)|(?<=pat-)|----)",
        rb"w(?:(?<=ssw)(?:or[dt]|d)|(?<=pw)d)" + _BETWEEN,
        rb"k(?:ey(?:" + _BETWEEN + rb")|(?<=ok)(?:en|ies?)" + _BETWEEN + rb"|(?<=ak)ia)",
        rb"z(?:(?<=authoriz)ation|(?<=aiz)a)",
        rb"c(?:(?<=sec)ret|redentials?|vv2?|vc)" + _BETWEEN,
        rb"b(?:earer|asic)[\s:\"'=\\]",
    )
)
"""On small letters. Each begins with the rarest letter of what it looks for."""

_LONGER = (b"passphrase",)


def suspicious(text: str) -> bool:
    """Whether a rule may find something. The text is one that `views.glance` has gone over."""
    raw = text.encode("utf-8", "surrogatepass")
    if (
        b"@" in raw
        or (b"%" in raw and _PERCENT(raw))
        or (b"\\" in raw and _ESCAPE(raw))
        or b"&#" in raw
        or (b"+" in raw and _INTERNATIONAL(raw))
        or _LONG_WORD in raw.translate(WORDS)
        or _MANY_DIGITS in raw.translate(DIGITS, SEPARATORS)
        or (b"." in raw and _FOUR(raw))
        or (b":" in raw and _SIX(raw))
        # Cut: the end may be the beginning of a secret. What says so is no ASCII.
        or (len(raw) > len(text) and b"more characters]" in raw)
    ):
        return True
    small = raw.lower()
    if b"(" in small and _AT_WORD(small):
        return True
    if b"[" in small and _AT_BRACKET(small):
        return True
    return any(search(small) for search in _WORDS_FOR_SECRETS) or any(
        word in small for word in _LONGER
    )
