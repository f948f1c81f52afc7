"""E-mail addresses, also those obfuscated by spaces or `(at)`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ratchet.observe.redaction.rules.scanned import ScannedText

_AT = re.compile(r"\s{0,3}(?:@|[(\[{<]\s?at\s?[)\]}>])\s{0,3}", re.IGNORECASE)
_SAID = re.compile(r"[aA][tT]\s?[)\]}>]").search
_IN_ADDRESS = re.compile(r"://[^\s/?#@:]{0,60}:[^\s/]{0,60}\Z")
_LOCAL = re.compile(r"[^\s\"'<>()\[\]{},;:\\/@=|&?]{1,64}\Z")
_LOCAL_QUOTED = re.compile(r"\"[^\"\n]{1,62}\"\Z")
_DOT = r"(?:\.|\s?[(\[{<]\s?(?:dot|\.)\s?[)\]}>]\s?|\s\.\s)"
_DOMAIN = re.compile(
    rf"[^\W_](?:[\w\-]{{0,62}})(?:{_DOT}[^\W_][\w\-]{{0,62}}){{0,6}}{_DOT}[^\W\d_]{{2,24}}"
    r"|\[?[0-9]{1,3}(?:\.[0-9]{1,3}){3}\]?",
    re.IGNORECASE,
)


def find(scanned: ScannedText) -> Iterator[tuple[int, int]]:
    """Find e-mail addresses."""
    text = scanned.text
    if "@" not in text and not _SAID(text):
        return
    for at in _AT.finditer(text):
        start, end = at.span()
        before = text[max(start - 64, 0) : start]
        if _IN_ADDRESS.search(before):
            continue  # the host of a URL with credentials, which another rule finds
        local = _LOCAL.search(before) or _LOCAL_QUOTED.search(before)
        if local is None:
            continue
        # With a space before it, an @ is more often a mention or a decorator than an address.
        if at[0] != "@" and at[0].strip() == "@" and not (at[0][0] == " " and at[0][-1] == " "):
            continue
        domain = _DOMAIN.match(text, end, end + 255)
        if domain is not None:
            yield start - len(local[0]), domain.end()
