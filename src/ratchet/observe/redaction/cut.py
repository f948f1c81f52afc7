"""Cut text: the beginning of a secret where a text was cut at a limit."""

from __future__ import annotations

import re

from ratchet.observe.redaction.rules import key

_CUT = re.compile(r"… \[[0-9]{1,12} more characters\]\Z")

_DIGITS = re.compile(r"(?<![\w.,])\+?\(?[0-9](?:[ .\-()/]{0,3}[0-9]){5,}[ .\-()/]{0,3}\Z")
_ACCOUNT = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}[0-9]{2}(?:[ \-.]?[A-Za-z0-9]){2,30}[ \-.]?\Z")
_EMAIL = re.compile(r"[^\s\"'<>()\[\]{},;:\\/@=]{1,64}@[\w.\-]{0,255}\Z")
_USER = re.compile(r"://[^\s/@\"'<>]{1,200}:[^\s/@\"'<>]{2,200}\Z")

_BEGINNINGS = (
    ("key", key.PREFIXES),
    ("credentials", _USER),
    ("email", _EMAIL),
    ("iban", _ACCOUNT),
    ("card", _DIGITS),
)


def beginning(text: str) -> tuple[int, int, str] | None:
    """Where a secret begins whose rest was cut, where the text ends, and what kind it is.

    None when the text was not cut, or ends with nothing of the kind.
    """
    if text[-1:] != "]":
        return None
    mark = _CUT.search(text, max(len(text) - 40, 0))
    if mark is None:
        return None
    end = mark.start()
    tail = text[max(end - 400, 0) : end]
    for rule, form in _BEGINNINGS:
        found = form.search(tail)
        if found is not None:
            return end - len(tail) + found.start(), end, rule
    return None
