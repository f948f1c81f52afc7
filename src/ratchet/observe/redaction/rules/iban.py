"""IBANs (ISO 13616): checks the country's form and the check digits."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ratchet.observe.redaction.rules.scanned import ScannedText

_BEGIN = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}[ \-.]{0,2}[0-9][ \-.]{0,2}[0-9]")


def find(scanned: ScannedText) -> Iterator[tuple[int, int]]:
    """Find IBANs."""
    if not scanned.may_hold_account:
        return
    text = scanned.text
    for begin in _BEGIN.finditer(text):
        form = _FORMS.get(begin[0][:2].upper())
        if form is None:
            continue
        length = 4 + sum(size for size, _ in form)
        characters: list[str] = []
        gap = 0
        at = begin.start()
        while at < len(text) and len(characters) < length:
            character = text[at]
            if character.isascii() and character.isalnum():
                characters.append(character)
                gap = 0
            elif character in " -.\u00a0\t\n/" and gap < 3:
                gap += 1
            else:
                break
            at += 1
        if len(characters) < length or (at < len(text) and text[at].isalnum()):
            continue
        if _is_iban("".join(characters)):
            yield begin.start(), at


def _is_iban(characters: str) -> bool:
    # Without the national check digits: an account with a typing error in them is redacted too.
    compact = characters.upper()
    form = _FORMS[compact[:2]]
    if not re.fullmatch("".join(f"{_KINDS[kind]}{{{size}}}" for size, kind in form), compact[4:]):
        return False
    return (
        int("".join(str(int(character, 36)) for character in compact[4:] + compact[:4])) % 97 == 1
    )


_KINDS = {"n": "[0-9]", "a": "[A-Z]", "c": "[A-Z0-9]"}

_REGISTRY = """
AD8n12c AE19n AL8n16c AT16n AZ4a20c BA16n BE12n BG4a6n8c BH4a14c BI23n BR23n1a1c BY4c4n16c
CH5n12c CR18n CY8n16c CZ20n DE18n DJ23n DK14n DO4c20n EE16n EG25n ES20n FI14n FK2a12n FO14n
FR10n11c2n GB4a14n GE2a16n GI4a15c GL14n GR7n16c GT24c HN4a20n HR17n HU24n IE4a14n IL19n
IQ4a15n IS22n IT1a10n12c JO4a4n18c KW4a22c KZ3n13c LB4n20c LC4a24c LI5n12c LT16n LU3n13c
LV4a13c LY21n MC10n11c2n MD20c ME18n MK3n10c2n MN16n MR23n MT4a5n18c MU4a19n3a NI4a20n NL4a10n
NO11n OM3n16c PK4a16c PL24n PS4a21c PT21n QA4a21c RO4a16c RS18n RU14n15c SA2n18c SC4a20n3a
SD14n SE20n SI15n SK20n SM1a10n12c SO19n ST21n SV4a20n TL19n TN20n TR6n16c UA6n19c VA18n
VG4a16n XK16n YE4a4n18c
"""
"""Form of the account numbers of each country, by the registry of ISO 13616: n digits, a capital
letters, c both."""

_FORMS = {
    entry[:2]: [(int(size), kind) for size, kind in re.findall("([0-9]+)([nac])", entry)]
    for entry in _REGISTRY.split()
}
"""The same as sizes and kinds of characters, by country."""
