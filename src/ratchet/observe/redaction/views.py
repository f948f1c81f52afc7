"""Views: a text as a person would read it, with the way back to where each character stands.

Escapes, percent-encoding and numeric entities are decoded, invisible characters are left out, and
look-alikes (full-width forms, other scripts' digits, Cyrillic and Greek letters that look Latin)
become the character that they look like. A rule looks at the view; what it finds is replaced in
the text as it stands.
"""

# ruff: noqa: RUF001 - look-alikes are what this file is about

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

ROUNDS = 3
"""How often what was encoded is decoded: text that is encoded twice is met, text that is encoded
without end is not followed."""

_INVISIBLE = (
    "\u00ad\u0300-\u036f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff"
)
"""Zero-width and format characters, variation selectors, tags, and combining marks."""

_ENCODED = re.compile(
    r"\\{1,16}(?:u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|[\"'/nrt])|(?:%[0-9A-Fa-f]{2})+"
    rf"|&#(?:[0-9]{{1,7}}|[xX][0-9A-Fa-f]{{1,6}});|[{_INVISIBLE}]+"
)

_ZEROS = (
    *(0x660, 0x6F0, 0x7C0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xB66, 0xBE6, 0xC66, 0xCE6, 0xD66, 0xE50),
    *(0xED0, 0xF20, 0x1040, 0x17E0, 0x1810, 0xFF10, 0x1D7CE, 0x1D7D8, 0x1D7E2, 0x1D7EC, 0x1D7F6),
)
"""The digit zero of other scripts; the nine that follow it are the others."""

_LIKE = (
    # Cyrillic, Greek, and a few Latin letters that are drawn like plain ones.
    ("аАɑαΑ", "aAaaA"),
    ("ВвΒʙ", "BBBB"),
    ("сСϲϹ", "cCcC"),
    ("ԁɡһ", "dgh"),
    ("еЕёЁΕ", "eEeEE"),
    ("НΗ", "HH"),
    ("іІΙιı", "iIIii"),
    ("јЈ", "jJ"),
    ("кКΚκ", "kKKk"),
    ("ΜМм", "MMm"),
    ("ΝոոѕЅ", "NnnsS"),
    ("оОοΟօ", "oOoOo"),
    ("рРρΡ", "pPpP"),
    ("ԛգ", "qg"),
    ("ТτΤ", "TtT"),
    ("уУυΥγ", "yYuYy"),
    ("ѵνԝω", "vvww"),
    ("хХχΧ", "xXxX"),
    ("ΖᴢӡℓⅼǀⅠ", "Zz3lllI"),
    # Dashes, dots, slashes, and what stands for an at sign or a colon.
    ("‐‑‒–−﹘﹣", "-------"),
    ("․。｡·∙", "....."),
    ("∕⁄", "//"),
    ("﹫", "@"),
    ("ː∶", "::"),
    ("\u00a0\u202f\u205f\u3000", "    "),
)

_FOLDED_RANGES = ((0xFF01, 0xFF5F), (0x1D400, 0x1D7CE), (0x2070, 0x20A0), (0x2460, 0x24EA))
"""Forms that Unicode itself calls compatible with one plain character."""


def _folding() -> dict[int, str]:
    table: dict[int, str] = {}
    for start, end in _FOLDED_RANGES:
        for code in range(start, end):
            plain = unicodedata.normalize("NFKC", chr(code))
            if len(plain) == 1 and plain.isascii():
                table[code] = plain
    for zero in _ZEROS:
        table.update((zero + digit, str(digit)) for digit in range(10))
    for code in range(0x2000, 0x200B):
        table[code] = " "
    for likes, plains in _LIKE:
        table.update((ord(like), plain) for like, plain in zip(likes, plains, strict=True))
    table.update({0xB2: "2", 0xB3: "3", 0xB9: "1"})
    return table


_TABLE = _folding()

_foldable = re.compile("[" + "".join(re.escape(chr(code)) for code in _TABLE) + "]").search

_invisible = re.compile(f"[{_INVISIBLE}]+").search


class View(NamedTuple):
    """A text to look at, and where its characters stand in the text that it is a view of."""

    text: str
    places: Sequence[int] | None
    """Of each character and of the end; None when all stand where they stand here."""

    def place(self, start: int, end: int) -> tuple[int, int]:
        """What a part of the view is of the text."""
        places = self.places
        if places is None:
            return start, end
        last = len(places) - 1
        while end < last and places[end] == places[end - 1]:
            end += 1  # the rest of what one escape stands for
        return places[start], places[end]


def folded(text: str) -> str:
    """The text with plain characters for their look-alikes, each where it was."""
    if text.isascii() or not _foldable(text):
        return text
    return text.translate(_TABLE)


def glance(text: str) -> str:
    """What to look at for a sign of something: look-alikes folded, invisible characters gone."""
    if text.isascii():
        return text
    text = folded(text)
    return re.sub(f"[{_INVISIBLE}]+", "", text) if _invisible(text) else text


def view_of(text: str) -> View:
    """The text as a person would read it."""
    places: Sequence[int] | None = None
    seen = folded(text)
    for _ in range(ROUNDS):
        step = _decoded(seen)
        if step is None:
            break
        seen, spots = step
        places = spots if places is None else [places[spot] for spot in spots]
        seen = folded(seen)
    return View(seen, places)


def _decoded(text: str) -> tuple[str, list[int]] | None:
    """The text decoded once, and where its characters came from; None when nothing was encoded."""
    pieces: list[str] = []
    spots: list[int] = []
    at = 0
    for match in _ENCODED.finditer(text):
        start, end = match.span()
        pieces.append(text[at:start])
        spots.extend(range(at, start))
        at = end
        encoded = match[0]
        if encoded[0] == "%":
            raw = bytes.fromhex(encoded.replace("%", ""))
            if raw.isascii():
                pieces.append(raw.decode("ascii"))
                spots.extend(range(start, end, 3))
                continue
            piece = raw.decode("utf-8", "replace")
        else:
            piece = _character(encoded)
        pieces.append(piece)
        spots.extend([start] * len(piece))
    if not at:
        return None
    pieces.append(text[at:])
    spots.extend(range(at, len(text) + 1))
    return "".join(pieces), spots


_SHORT = {"n": "\n", "r": "\n", "t": "\t"}


def _character(encoded: str) -> str:
    """What an escape or an entity stands for; nothing for what cannot be seen."""
    if encoded[0] == "\\":
        escape = encoded.lstrip("\\")
        if len(escape) > 1:
            return chr(int(escape[1:], 16))
        return _SHORT.get(escape, escape)
    if encoded[0] == "&":
        digits = encoded[2:-1]
        code = int(digits[1:], 16) if digits[0] in "xX" else int(digits)
        return chr(code) if code < 0x110000 else ""
    return ""
