"""Credentials in headers, URLs and connection strings."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from ratchet.observe.redaction.rules.scanned import ScannedText

_BEARER = re.compile(r"\bbearer[\s:\"'=\\]{1,4}([A-Za-z0-9._~+/\-]{8,}=*)", re.IGNORECASE)
_BASIC = re.compile(r"\bbasic[\s:\"'\\]{1,4}([A-Za-z0-9+/_\-]{6,}={0,2})", re.IGNORECASE)
_IN_ADDRESS = re.compile(r"://([^\s/?#\"'<>\\]{1,400})@")
_SIGNED = re.compile(
    r"[?&;](?:sig|signature|x-amz-signature|x-amz-security-token|x-goog-signature|awsaccesskeyid"
    r"|access_token|auth|code|key|sas)=([^&\s\"'<>#\\]{8,})",
    re.IGNORECASE,
)


def find(scanned: ScannedText) -> Iterator[tuple[int, int]]:
    """Find credentials."""
    text, small = scanned.text, scanned.small
    for match in _BEARER.finditer(text) if "bearer" in small else ():
        if any(map(str.isdigit, match[1])) or len(match[1]) >= 32:
            yield match.span(1)
    for match in _BASIC.finditer(text) if "basic" in small else ():
        if _is_pair(match[1]):
            yield match.span(1)
    for match in _IN_ADDRESS.finditer(text):
        # A long user name without a password may be a provider's token.
        if ":" in match[1] or len(match[1]) >= 16:
            yield match.span(1)
    for match in _SIGNED.finditer(text):
        if any(map(str.isdigit, match[1])):
            yield match.span(1)


def _is_pair(encoded: str) -> bool:
    """Whether it is NAME:PASSWORD in base64."""
    plain = encoded.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        decoded = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (ValueError, binascii.Error):
        return False
    return b":" in decoded and all(32 <= byte < 127 or byte > 159 for byte in decoded)
