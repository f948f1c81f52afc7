"""Texts as tokens, so that a piece is found again after its file was formatted."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

_CODE = frozenset({"py", "pyi", "ts", "tsx", "mts", "cts", "js", "jsx", "mjs", "cjs"})
_STRING = (
    r"(?:[A-Za-z]{0,2})(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''"
    r"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`)"
)
_PYTHON = re.compile(rf"{_STRING}|#[^\n]*|\w+|\S", re.DOTALL)
_SCRIPT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/|\w+|\S", re.DOTALL)
_PATTERN = re.compile(r"/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/[a-z]*")
_BEFORE_PATTERN = frozenset({"return", "typeof", "case", "in", "of"})
_TEXT = re.compile(r"\w+|\S")
_QUOTED = re.compile(r"(?P<prefix>[A-Za-z]*)(?P<quote>'''|\"\"\"|'|\")(?P<body>.*)(?P=quote)", re.S)

OPENING = frozenset("([{")
CLOSING = frozenset(")]}")


class TextToken(NamedTuple):
    """A word, a string, a comment, or a sign."""

    text: str
    """The same however the token is quoted, and whatever its line ends."""
    start: int
    end: int


def tokens_of(text: str, path: str) -> list[TextToken]:
    """Tokens of a text; a comma that only closes a list is none, as formatters add and drop them.

    Args:
        text: The text, or a part of it.
        path: The file that it is from: its ending says how strings are written.
    """
    ending = path.rpartition(".")[2].lower()
    pattern = _TEXT if ending not in _CODE else _PYTHON if ending[:2] == "py" else _SCRIPT
    spans = (
        _script_spans(text) if pattern is _SCRIPT else (m.span() for m in pattern.finditer(text))
    )
    found = [TextToken(_plain(text[start:end]), start, end) for start, end in spans]
    return [
        one
        for one, following in zip_longest(found, found[1:])
        if not (one.text == "," and following is not None and following.text in CLOSING)
    ]


def _script_spans(text: str) -> Iterator[tuple[int, int]]:
    """Tokens of JavaScript, whose templates hold code, and whose patterns may hold quotes."""
    at, before = 0, ""
    while (found := _SCRIPT.search(text, at)) is not None:
        start, at = found.start(), _token_end(text, found, before)
        before = text[start:at]
        yield start, at


def _token_end(text: str, found: re.Match[str], before: str) -> int:
    """Where a token ends: a template is closed where its slots are."""
    word = found.group()
    if word == "/" and (
        not before or before in _BEFORE_PATTERN or before[-1] in "(,=:[!&|?{};+*%<>"
    ):
        pattern = _PATTERN.match(text, found.start())
        return pattern.end() if pattern else found.end()
    opening = re.match(r"[A-Za-z]{0,2}`", word)
    return _template_end(text, found.start() + opening.end()) if opening else found.end()


def _template_end(text: str, at: int) -> int:
    start = at
    while at < len(text):
        if text[at] == "`":
            return at + 1
        if text.startswith("${", at):
            at = _code_end(text, at + 2)
        else:
            at += 2 if text[at] == "\\" else 1
    return start


def _code_end(text: str, at: int) -> int:
    """Where the slot of a template ends, behind its bracket."""
    depth, before = 1, ""
    while depth and (found := _SCRIPT.search(text, at)) is not None:
        depth += {"{": 1, "}": -1}.get(found.group(), 0)
        at = _token_end(text, found, before)
        before = text[found.start() : at]
    return at


def _plain(token: str) -> str:
    if "\r" in token:
        token = token.replace("\r\n", "\n").rstrip("\r")
    if len(token) > 1 and token[-1] in "\"'" and (quoted := _QUOTED.fullmatch(token)):
        prefix, body = quoted["prefix"].lower().replace("u", ""), quoted["body"]
        if '"' not in body and "'" not in body and not body.endswith("\\"):
            return f'{prefix}"{body}"' if len(quoted["quote"]) == 1 else f'{prefix}"""{body}"""'
    return token


def fingerprint(text: str, path: str) -> str:
    """A hash of a text's tokens: formatting does not change it."""
    joined = "\0".join(token.text for token in tokens_of(text, path))
    return hashlib.sha256(joined.encode(errors="surrogateescape")).hexdigest()[:32]


def whole_tokens(tokens: Sequence[TextToken], start: int, end: int) -> tuple[int, int]:
    """The part of a span that cuts no token."""
    inside = [one for one in tokens if start < one.end and one.start < end]
    if inside and inside[0].start < start:
        start = inside[0].end
    if inside and inside[-1].end > end:
        end = inside[-1].start
    return min(start, end), end


def is_name(token: str) -> bool:
    """Whether a token is a word of the program: no string, no number, no sign."""
    return token.isidentifier()
