"""Decodes a text as a person would read it, and maps positions back to the original.

Escapes, percent-encoding and numeric entities are decoded, invisible characters are removed, and
look-alikes (full-width forms, other scripts' digits, Cyrillic and Greek letters that look Latin)
become the character that they look like. Rules search the decoded text; what they find is replaced
in the original.
"""

from __future__ import annotations

import base64

# ruff: noqa: RUF001 - this file lists look-alikes
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

MAX_DECODING_PASSES = 3
"""Maximum number of decoding passes, for text that was encoded repeatedly."""

_INVISIBLE = (
    "\u00ad\u0300-\u036f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff"
)
"""Zero-width and format characters, variation selectors, tags, and combining marks."""

_ENCODED = re.compile(
    r"\\{1,64}(?:u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|[\"'/nrt])|(?:%[0-9A-Fa-f]{2})+"
    rf"|&#(?:[0-9]{{1,7}}|[xX][0-9A-Fa-f]{{1,6}});|[{_INVISIBLE}]+"
)

_ZEROS = (
    *(0x660, 0x6F0, 0x7C0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xB66, 0xBE6, 0xC66, 0xCE6, 0xD66, 0xE50),
    *(0xED0, 0xF20, 0x1040, 0x17E0, 0x1810, 0xFF10, 0x1D7CE, 0x1D7D8, 0x1D7E2, 0x1D7EC, 0x1D7F6),
)
"""The digit zero of other scripts; the digits 1 to 9 follow it."""

_LIKE = (
    # Cyrillic, Greek, and a few Latin letters that look like plain ones.
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
    # Dashes, dots, slashes, and look-alikes of the at sign and the colon.
    ("‐‑‒–−﹘﹣", "-------"),
    ("․。｡·∙", "....."),
    ("∕⁄", "//"),
    ("﹫", "@"),
    ("ː∶", "::"),
    ("\u00a0\u202f\u205f\u3000", "    "),
)

_FOLDED_RANGES = ((0xFF01, 0xFF5F), (0x1D400, 0x1D7CE), (0x2070, 0x20A0), (0x2460, 0x24EA))
"""Forms that Unicode defines as compatible with a plain character."""


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

_FOLDABLE = frozenset(map(chr, _TABLE))

_ONE_INVISIBLE = re.compile(f"[{_INVISIBLE}]").fullmatch
_ANY_INVISIBLE = frozenset(
    character
    for code in (*range(0xA0, 0x2100), *range(0xFE00, 0x10000), *range(0xE0000, 0xE1000))
    if _ONE_INVISIBLE(character := chr(code))
)
_INVISIBLES = re.compile(f"[{_INVISIBLE}]+")

_ASCII = bytes(range(128))


def _non_ascii(text: str) -> str:
    """The characters of a text that are not ASCII."""
    rare = text.encode("utf-8", "surrogatepass").translate(None, _ASCII)
    return rare.decode("utf-8", "surrogatepass")


class TextSegment(NamedTuple):
    """A part of the result of one decoding pass, and its source."""

    at: int
    """Its start in the result."""
    start: int
    end: int
    """Its span in the source."""
    as_is: bool
    """Whether it was copied character by character."""


class DecodedText(NamedTuple):
    """A decoded text that maps positions to the original."""

    text: str
    rounds: Sequence[Sequence[TextSegment]] = ()
    """Segments of each decoding pass, the last pass first."""

    def original_span(self, start: int, end: int) -> tuple[int, int]:
        """The source span of a nonempty part of this text."""
        for segments in self.rounds:
            start, end = _original_span(segments, start)[0], _original_span(segments, end - 1)[1]
        return start, end


def _original_span(segments: Sequence[TextSegment], at: int) -> tuple[int, int]:
    """The source span of one character of a decoding pass's result."""
    segment = segments[bisect_right(segments, at, key=_beginning) - 1]
    if not segment.as_is:
        return segment.start, segment.end
    stood = segment.start + at - segment.at
    return stood, stood + 1


_beginning = attrgetter("at")


def folded(text: str) -> str:
    """The text with look-alikes replaced by plain characters; its length is unchanged."""
    if text.isascii() or _FOLDABLE.isdisjoint(_non_ascii(text)):
        return text
    return text.translate(_TABLE)


def folded_visible(text: str) -> str:
    """The text for the prefilter: look-alikes folded, invisible characters removed."""
    if text.isascii():
        return text
    odd = _non_ascii(text)
    if not _FOLDABLE.isdisjoint(odd):
        text = text.translate(_TABLE)
    return text if _ANY_INVISIBLE.isdisjoint(odd) else _INVISIBLES.sub("", text)


def decode(text: str) -> DecodedText:
    """Decode a text as a person would read it."""
    rounds: list[Sequence[TextSegment]] = []
    folded_text = folded(text)
    for _ in range(MAX_DECODING_PASSES):
        step = _decoded_once(folded_text)
        if step is None:
            break
        folded_text = folded(step[0])
        rounds.insert(0, step[1])
    return DecodedText(folded_text, rounds)


def _decoded_once(text: str) -> tuple[str, list[TextSegment]] | None:
    """One decoding pass: the result and its segments; None if nothing was encoded."""
    if text.isascii() and "\\" not in text and "%" not in text and "&#" not in text:
        return None
    pieces: list[str] = []
    segments: list[TextSegment] = []
    at = length = 0
    for match in _ENCODED.finditer(text):
        start, end = match.span()
        if start > at:
            segments.append(TextSegment(length, at, start, True))
            pieces.append(text[at:start])
            length += start - at
        at = end
        for piece, begin, stop in _characters(match[0], start, end):
            segments.append(TextSegment(length, begin, stop, False))
            pieces.append(piece)
            length += len(piece)
    if not at:
        return None
    if at < len(text):
        segments.append(TextSegment(length, at, len(text), True))
        pieces.append(text[at:])
    return "".join(pieces), segments


def _characters(encoded: str, start: int, end: int) -> Iterator[tuple[str, int, int]]:
    """The characters of an encoded part, in pieces with the source span of each."""
    if encoded[0] == "%":
        raw = bytes.fromhex(encoded.replace("%", ""))
        if not raw.isascii():
            yield raw.decode("utf-8", "replace"), start, end
            return
        for number, byte in enumerate(raw):
            yield chr(byte), start + 3 * number, start + 3 * number + 3
    elif piece := _character(encoded):
        yield piece, start, end


_SHORT = {"n": "\n", "r": "\n", "t": "\t"}


def _character(encoded: str) -> str:
    """The character of an escape or an entity; empty for an invisible character."""
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


_BASE64_WORD = re.compile(r"[A-Za-z0-9+/_\-]{16,}={0,2}")

MAX_BASE64_LENGTH = 65_536
"""Maximum length of a word that is decoded."""

_SAMPLE = 32
"""Characters decoded to detect text; images and sounds are not decoded further."""


def base64_words(text: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and decoded text of each word in base64 that encodes text."""
    for match in _BASE64_WORD.finditer(text):
        word = _base64_text(match[0])
        if word is not None:
            yield match.start(), match.end(), word


def _base64_text(word: str) -> str | None:
    body = word.rstrip("=").replace("-", "+").replace("_", "/")
    if len(body) > MAX_BASE64_LENGTH:
        return None
    try:
        if not _is_text(_base64_bytes(body[:_SAMPLE])):
            return None
        content = _base64_bytes(body)
        return content.decode("ascii") if _is_text(content) else None
    except ValueError:
        return None


def _base64_bytes(body: str) -> bytes:
    trimmed = body[: len(body) - 1] if len(body) % 4 == 1 else body
    return base64.b64decode(trimmed + "=" * (-len(trimmed) % 4))


def _is_text(content: bytes) -> bool:
    return content.isascii() and all(byte >= 32 or byte in (9, 10, 13) for byte in content)
