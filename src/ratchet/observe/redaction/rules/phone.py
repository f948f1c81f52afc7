"""Telephone numbers: international ones, usual groupings, and numbers after a word like "phone"."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ratchet.observe.redaction.rules.scanned import ScannedText

_CANDIDATE = re.compile(
    r"(?<![\w.,/#\-+])(?<![0-9]:)(?<!\+ )\+?\(?[0-9](?:[ ().\-/\t]{0,3}[0-9]){6,16}"
    r"(?![\w]|[.,:][0-9]|-[0-9])"
)
_NORTH_AMERICA = re.compile(
    r"(?:\+?1[ .\-]{1,3})?\(?[2-9][0-9]{2}\)?[ .\-]{1,3}[2-9][0-9]{2}[ .\-][0-9]{4}"
)
_TRUNK = re.compile(r"\(?0[1-9][0-9]{0,4}\)?(?:[ \-/.]{1,3}[0-9]{2,8}){1,5}")
_EXIT = re.compile(r"00[1-9][0-9](?:[ \-/.]?[0-9]){7,12}")
_DATE = re.compile(
    r"[0-9]{1,2}[./\-][0-9]{1,2}[./\-][0-9]{2,4}(?![0-9])|[0-9]{4}[./\-][0-9]{1,2}[./\-]"
)
_CALLED = re.compile(
    r"(?:phone|telefon|telephone|\btel\b|\btel\.|mobile?|mobil|\bcell|fax|whatsapp|handy|hotline"
    r"|\bcall(?: me| us)?\b|\bsms|\bring\b|m[óo]vil|portable)[^0-9+(\n]{0,20}\Z",
    re.IGNORECASE,
)
_LINK = re.compile(r"\b(?:tel|sms):\+?[0-9](?:[ ().\-]{0,2}[0-9]){5,16}", re.IGNORECASE)


def find(scanned: ScannedText) -> Iterator[tuple[int, int]]:
    """Find telephone numbers."""
    if not scanned.has_digits(7):
        return
    text = scanned.text
    for match in _LINK.finditer(text) if "tel:" in scanned.small or "sms:" in scanned.small else ():
        yield match.span()
    for match in _CANDIDATE.finditer(text):
        number = match[0]
        digits = sum(map(str.isdigit, number))
        if number[0] == "+":
            is_one = 8 <= digits <= 15
        elif _NORTH_AMERICA.fullmatch(number) or _EXIT.fullmatch(number):
            is_one = True
        elif number.lstrip("(")[0] == "0" and _TRUNK.fullmatch(number):
            is_one = 9 <= digits <= 13 and not _DATE.match(number)
        else:
            start = match.start()
            before = text[max(start - 40, 0) : start]
            is_one = 7 <= digits <= 15 and _CALLED.search(before) is not None
        if is_one:
            yield match.span()
