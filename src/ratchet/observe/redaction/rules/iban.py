"""IBANs (ISO 13616): checks the country's form and the check digits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from ratchet.observe.redaction.rules.scanned import ScannedText

_BEGIN = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}[ \-.]{0,2}[0-9][ \-.]{0,2}[0-9]")

_PART = re.compile(r"([0-9]+)!")
"""Length of each part of a form such as `8!n10!n`."""


def find(scanned: ScannedText) -> Iterator[tuple[int, int]]:
    """Find IBANs."""
    if not scanned.may_hold_account:
        return
    text = scanned.text
    for begin in _BEGIN.finditer(text):
        length = _length(begin[0][:2].upper())
        if not length:
            continue
        found: list[str] = []
        gap = 0
        at = begin.start()
        while at < len(text) and len(found) < length:
            character = text[at]
            if character.isascii() and character.isalnum():
                found.append(character)
                gap = 0
            elif character in " -.\u00a0\t\n/" and gap < 3:
                gap += 1
            else:
                break
            at += 1
        if len(found) < length or (at < len(text) and text[at].isalnum()):
            continue
        if _is_iban("".join(found)):
            yield begin.start(), at


@cache
def _length(country: str) -> int:
    """Length of a country's account numbers in characters; 0 when it has none."""
    from stdnum import numdb  # lazily: the import takes 18 ms

    form = numdb.get("iban").info(country)[0][1].get("bban", "")
    return 4 + sum(map(int, _PART.findall(form))) if form else 0


def _is_iban(characters: str) -> bool:
    from stdnum import iban

    # Without the national check digits: an account with a typing error in them is redacted too.
    return iban.is_valid(characters, check_country=False)
