"""Rules: what is not to be stored, each kind of it a file. A rule finds parts of a text.

A rule is a file beside its siblings and a line in `RULES`. `signs` in `suspicion.py` must stop at
whatever a rule can find.
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
"""From a text to where things begin and end in it."""

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
"""By name. Where two find the same, the one that stands first here gives it its name."""

FIELD = "field"
"""Name of the rule that goes by the names of keys; see `fields.py`."""

NAMES = (*RULES, FIELD)
