"""Values assigned to names of secrets: `password=…`, `"api_key": "…"`, "the token is …"."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ratchet.observe.redaction.rules.scanned import ScannedText

_NAMES = re.compile(
    r"pass(?:word|wd|wort|phrase|code)s?|pwd|secret|tokens?(?![a-z])|key|credentials?"
    r"|authori[sz]ation|cookies?|cvv2?|cvc"
)
"""Ends of names of secrets, in lower case."""

_ENDS = ("pass", "pwd", "secret", "token", "key", "credential", "authori", "cookie", "cvv", "cvc")
"""Each match of `_NAMES` contains one of these."""

_KIND_OF_KEY = re.compile(
    r"(?:api|access|auth|private|secret|signing|encryption|account|master|service|shared)[_\- ]?\Z"
)
"""What precedes `key` if it names a secret; other keys open doors, or tables."""

_BETWEEN = re.compile(
    r"(?:[_\-][a-z0-9]{1,12}){0,2}[\"'`*\\\])]{0,4}"
    r"(?:\s{0,3}(?:=>|:=|[:=])|\s{1,3}(?:is|lautet|ist|es|est|was|:)\s)\s{0,4}[*_]{0,3}\s{0,4}"
    r"(?P<quote>[\"'`*\\]{0,4})"
)
_HEADER = re.compile(
    r"\b(?:proxy-|x-)?(?:authorization|authentication|api-key|auth-token)"
    r"[\"'\\]{0,4}\s{0,3}[:=]\s{0,4}[\"'\\\[]{0,5}"
    r"((?:[A-Za-z]{2,20} )?[^\s\"'\\,;]{6,})",
    re.IGNORECASE,
)
_COOKIE = re.compile(
    r"\b(?:set-)?cookie[\"'\\]{0,4}\s{0,3}[:=]\s{0,4}[\"'\\\[]{0,5}"
    r"([A-Za-z0-9_.\-]{1,80}=[^\"'\\\r\n]{3,4000})",
    re.IGNORECASE,
)

_LONGEST = 4_000
"""Maximum length of a quoted value."""

_BARE = re.compile(r"[^\s\"'`,;&<>(){}\[\]\\|]{4,400}")

_NOT_ONE = re.compile(
    r"(?:[*x.\-_•#]+|<.*|\$.*|\{.*|%.*%?|\[.*|none|null|nil|true|false|undefined|optional|required"
    r"|missing|empty|invalid|unknown|expired|incorrect|wrong|changed|reset|str|string|int|integer"
    r"|bytes|bool|object|any|self|os|env|process|config|settings|getenv.*|redacted.*|hidden"
    r"|your.*|my.*|example.*|changeme.*|placeholder.*|dummy.*|test|secret|password|token)\Z",
    re.IGNORECASE,
)


def find(scanned: ScannedText) -> Iterator[tuple[int, int]]:
    """Find values of secrets."""
    text, small = scanned.text, scanned.small
    if "auth" in small or "api-key" in small:
        for match in _HEADER.finditer(text):
            if looks_secret(match[1].rpartition(" ")[2], quoted=False):
                yield match.span(1)
    if "cookie" in small:
        for match in _COOKIE.finditer(text):
            yield match.span(1)
    for end in _ENDS:
        at = small.find(end)
        while at >= 0:
            part = _assigned(text, small, at)
            if part is not None:
                yield part
            at = small.find(end, at + 1)


def _assigned(text: str, small: str, at: int) -> tuple[int, int] | None:
    """The span of the value assigned to a name; None if there is none, or it is not a secret."""
    name = _NAMES.match(small, at)
    if name is None:
        return None
    if name[0] == "key":
        if not _KIND_OF_KEY.search(small, max(at - 11, 0), at):
            return None
    elif small[at - 1 : at].isalpha() and at and text[at].islower():
        return None  # the end of another word; `dbPassword` is a name for one
    between = _BETWEEN.match(small, name.end())
    return None if between is None else _value(text, between)


def _value(text: str, match: re.Match[str]) -> tuple[int, int] | None:
    start = match.end()
    quote = match["quote"].lstrip("\\")[:1]
    if quote and quote != "*":
        end = _end_of(text, start, quote)
        return (start, end) if looks_secret(text[start:end], quoted=True) else None
    bare = _BARE.match(text, start)
    if bare is None:
        return None
    value = bare[0].rstrip(".:!?*")
    after = text[bare.end() : bare.end() + 1]
    if after in ("(", "[") or not looks_secret(value, quoted=False):
        return None
    return start, start + len(value)


def _end_of(text: str, start: int, quote: str) -> int:
    """End of a quoted value: its quote, the end of the line, or the end of the text."""
    limit = min(start + _LONGEST, len(text))
    quoted = text.find(quote, start, limit)
    end = limit if quoted < 0 else quoted
    line = text.find("\n", start, end)
    end = end if line < 0 else line
    # A quote that ends JSON within JSON is escaped.
    return start + len(text[start:end].rstrip("\\"))


def looks_secret(value: str, *, quoted: bool) -> bool:
    """Whether a value looks like a secret rather than a word about one."""
    value = value.strip()
    if len(value) < (3 if quoted else 4) or _NOT_ONE.match(value):
        return False
    if quoted and " " not in value:
        return any(not c.isalpha() for c in value) or len(value) >= 6
    if quoted:
        return any(map(str.isdigit, value)) and len(value) <= 200
    if re.fullmatch(r"[0-9.]+", value):
        return len(value) >= 6 and "." not in value
    plain = re.fullmatch(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", value)
    has_digit = any(map(str.isdigit, value))
    if plain and not has_digit:
        return False  # a name, as in `token = other_token`
    return has_digit or any(c in "!@#$%^&*+~" for c in value)
