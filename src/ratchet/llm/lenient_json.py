"""Lenient JSON parser: accepts other quotes, extra commas, comments and bare line breaks.

Truncated or ambiguous text is refused, since a guess could end up in a prompt.
"""

# ruff: noqa: RUF001
from __future__ import annotations

import re
from typing import Any

MAX_DEPTH = 100

_BLANK = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORD = re.compile(r"[A-Za-z_][\w-]*")
_WORDS = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "null": None,
    "None": None,
}
_CLOSING = {
    '"': '"',
    "'": "'",
    "“": '”“"',
    "”": '”"',
    "„": '“”"',
    "«": "»",
    "»": "«",
    "‘": "’",
    "「": "」",
    "『": "』",
    "＂": "＂",
}
"""Closing quotation marks by opening one, of several languages."""

_MARKS = {ends: re.compile(rf"[\\{ends}]") for ends in _CLOSING.values()}

_COMMAS, _COLONS = ",，、", ":："
_AFTER = frozenset(_COMMAS + _COLONS + "}]｝］")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "/": "/", "\\": "\\"}
_HEX = re.compile(r"[0-9A-Fa-f]{4}")


class NotJSON(ValueError):
    """The text at this position cannot be parsed."""


def read_lenient_json(text: str, at: int = 0) -> tuple[Any, int]:
    """Parse the value at a position; return it and its end.

    Raises:
        NotJSON: There is none.
    """
    return _value(text, at, 0)


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    if depth > MAX_DEPTH:
        raise NotJSON("nested too deep")
    at = _blank(text, at)
    first = text[at : at + 1]
    if first in ("{", "｛"):
        return _object(text, at + 1, depth)
    if first in ("[", "［"):
        return _array(text, at + 1, depth)
    if first in _CLOSING and first:
        return _text(text, at)
    if (number := _NUMBER.match(text, at)) is not None:
        digits = number[0]
        is_integer = not any(mark in digits for mark in ".eE")
        if is_integer and len(digits) > 300:
            raise NotJSON("a number with too many digits")
        return int(digits) if is_integer else float(digits), number.end()
    if (word := _WORD.match(text, at)) is not None and word[0] in _WORDS:
        return _WORDS[word[0]], word.end()
    raise NotJSON(f"no value at {at}")


def _object(text: str, at: int, depth: int) -> tuple[dict[str, Any], int]:
    result: dict[str, Any] = {}
    while True:
        at = _blank(text, at)
        if text[at : at + 1] in ("}", "｝"):
            return result, at + 1
        if text[at : at + 1] in _CLOSING:
            name, at = _text(text, at)
        elif (word := _WORD.match(text, at)) is not None:
            name, at = word[0], word.end()
        else:
            raise NotJSON(f"no name at {at}")
        at = _blank(text, at)
        if text[at : at + 1] not in _COLONS or at >= len(text):
            raise NotJSON(f"no colon at {at}")
        result[name], at = _value(text, at + 1, depth + 1)
        at = _next(text, at, "}｝")


def _array(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    result: list[Any] = []
    while True:
        at = _blank(text, at)
        if text[at : at + 1] in ("]", "］"):
            return result, at + 1
        value, at = _value(text, at, depth + 1)
        result.append(value)
        at = _next(text, at, "]］")


def _next(text: str, at: int, ends: str) -> int:
    """Return the position after the comma that follows an item, or of the closing bracket."""
    at = _blank(text, at)
    mark = text[at : at + 1]
    if mark and mark in _COMMAS:
        return at + 1
    if mark and mark in ends:
        return at
    raise NotJSON(f"no comma at {at}")


def _text(text: str, at: int) -> tuple[str, int]:
    ends, at = _CLOSING[text[at]], at + 1
    marks = _MARKS[ends]
    pieces: list[str] = []
    begin = at
    while (mark := marks.search(text, at)) is not None:
        at = mark.start()
        if mark[0] == "\\":
            pieces.append(text[begin:at])
            piece, at = _escape(text, at + 1)
            pieces.append(piece)
            begin = at
        elif _ends(text, at + 1):
            pieces.append(text[begin:at])
            return "".join(pieces), at + 1
        else:
            at += 1
    raise NotJSON("a string that does not end")


def _ends(text: str, at: int) -> bool:
    """Whether a quotation mark ends the string, judged by what follows it."""
    at = _blank(text, at)
    return at >= len(text) or text[at] in _AFTER


def _escape(text: str, at: int) -> tuple[str, int]:
    mark = text[at : at + 1]
    if mark == "u" and (code := _HEX.match(text, at + 1)) is not None:
        high = int(code[0], 16)
        at += 5
        if 0xD800 <= high < 0xDC00 and text[at : at + 2] == "\\u":
            low = _HEX.match(text, at + 2)
            if low is not None and 0xDC00 <= int(low[0], 16) < 0xE000:
                pair = 0x10000 + ((high - 0xD800) << 10) + int(low[0], 16) - 0xDC00
                return chr(pair), at + 6
        return ("\ufffd" if 0xD800 <= high < 0xE000 else chr(high)), at
    if mark in _ESCAPES:
        return _ESCAPES[mark], at + 1
    if mark in _CLOSING and mark:
        return mark, at + 1
    return "\\" + mark, at + 1  # such as \d in a regular expression


def _blank(text: str, at: int) -> int:
    blanks = _BLANK.match(text, at)
    return blanks.end() if blanks else at
