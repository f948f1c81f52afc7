"""IBANs (ISO 13616): checks the country's length and the check digits."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ratchet.observe.redaction.rules.scanned import ScannedText

_LISTED = (
    "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 "
    "CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 "
    "GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 "
    "KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 "
    "MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 "
    "SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 "
    "VA22 VG24 XK20 YE30 "
)

LENGTHS = {each[:2]: int(each[2:]) for each in _LISTED.split()}
"""Length of an IBAN by country."""

_BEGIN = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}[ \-.]{0,2}[0-9][ \-.]{0,2}[0-9]")


def find(scanned: ScannedText) -> Iterator[tuple[int, int]]:
    """Find IBANs."""
    if not scanned.may_hold_account:
        return
    text = scanned.text
    for begin in _BEGIN.finditer(text):
        length = LENGTHS.get(begin[0][:2].upper())
        if length is None:
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
        if is_iban("".join(found)):
            yield begin.start(), at


def is_iban(characters: str) -> bool:
    """Whether the check digits are correct."""
    moved = (characters[4:] + characters[:4]).upper()
    return int("".join(str(int(character, 36)) for character in moved)) % 97 == 1
