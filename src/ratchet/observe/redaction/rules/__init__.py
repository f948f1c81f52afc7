"""Rules: each finds one kind of secret or personal data in a text.

A rule is a module in this package and an entry in `RULES`. `may_match` in `prefilter.py` must be
true for every text in which a rule finds something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from ratchet.observe.redaction.rules import (
    address,
    assignment,
    card,
    credentials,
    email,
    iban,
    key,
    phone,
)
from ratchet.observe.redaction.rules.scanned import ScannedText

Find: TypeAlias = Callable[[ScannedText], Iterator[tuple[int, int]]]
"""Yields start and end of each match in a text."""

RULES: dict[str, Find] = {
    "credentials": credentials.find,
    "key": key.find,
    "assignment": assignment.find,
    "card": card.find,
    "iban": iban.find,
    "email": email.find,
    "phone": phone.find,
    "ip": address.find,
}
"""By name, in order of precedence: of overlapping matches the first rule names the mark."""

FIELD = "field"
"""Name of the rule for values of secret fields; see `fields.py`."""

RULE_NAMES = (*RULES, FIELD)
