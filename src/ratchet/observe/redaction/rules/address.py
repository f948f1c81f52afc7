"""IP addresses, version 4 and 6, except loopback and unspecified ones."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from ratchet.observe.redaction.rules.scanned import ScannedText

_FOUR = re.compile(r"(?<![\w.\-])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![\w]|[.\-][0-9A-Za-z])")
_SIX = re.compile(
    r"(?<![\w:.])(?:[0-9A-Fa-f]{1,4}:|:(?=:))(?:[0-9A-Fa-f]{0,4}:){1,6}[0-9A-Fa-f]{0,4}(?![\w:])"
)
_FOUR_SIGN = re.compile(r"\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]").search
_SIX_SIGN = re.compile(r":[0-9A-Fa-f]{0,4}:[0-9A-Fa-f]").search
_NUMBERED = re.compile(
    r"(?:version|release|build|firmware|\bver\.?|\bv|section|chapter|clause|==|>=|<=|~=|[§/])"
    r"[\s:='\"]{0,3}\Z",
    re.IGNORECASE,
)
_GROUPS = 2
_SIX_DIGITS = 5
"""Minimum number of hexadecimal digits of a version 6 address: `::1` is loopback, and `::2` may be
a slice in Python."""


def find(scanned: ScannedText) -> Iterator[tuple[int, int]]:
    """Find IP addresses."""
    text = scanned.text
    if _FOUR_SIGN(text):
        for match in _FOUR.finditer(text):
            start = match.start()
            if _is_four(match[0]) and not (
                _NUMBERED.search(text, max(start - 16, 0), start)
                and not text.endswith("//", max(start - 2, 0), start)
            ):
                yield match.span()
    if _SIX_SIGN(text):
        for match in _SIX.finditer(text):
            if _is_six(match[0]):
                yield match.span()


def _is_four(text: str) -> bool:
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified or text.endswith(".0.0.0"))


def _is_six(text: str) -> bool:
    groups = [group for group in text.split(":") if group]
    if len(groups) < _GROUPS or sum(map(len, groups)) < _SIX_DIGITS:
        return False
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
