"""International bank account numbers (ISO 13616): a country's length, and the check digits."""

from __future__ import annotations

import re
from collections.abc import Iterator

LENGTHS = {
    **{"AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22},
    **{"BI": 27, "BR": 29, "BY": 28, "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DJ": 27},
    **{"DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18, "FK": 18, "FO": 18, "FR": 27},
    **{"GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HR": 21, "HU": 28, "IE": 22},
    **{"IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LC": 32},
    **{"LI": 21, "LT": 20, "LU": 20, "LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19},
    **{"MN": 20, "MR": 27, "MT": 31, "MU": 30, "NI": 28, "NL": 18, "NO": 15, "OM": 23, "PK": 24},
    **{"PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "RU": 33, "SA": 24, "SC": 31},
    **{"SD": 18, "SE": 24, "SI": 19, "SK": 24, "SM": 27, "SO": 23, "ST": 25, "SV": 28, "TL": 23},
    **{"TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24, "XK": 20, "YE": 30},
}
"""Characters of a country's account numbers."""

_BEGIN = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}[ \-.]{0,2}[0-9][ \-.]{0,2}[0-9]")


def find(text: str) -> Iterator[tuple[int, int]]:
    """Where numbers stand."""
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
    """Whether the check digits are right."""
    moved = (characters[4:] + characters[:4]).upper()
    return int("".join(str(int(character, 36)) for character in moved)) % 97 == 1
