"""Agent names: turns any name into one that the store accepts."""

from __future__ import annotations

import functools
import hashlib
import re
import unicodedata

MAX_NAME = 100
_LOOKED_AT = 500
HASHED = 6


def agent_name(name: str, otherwise: str = "agent") -> str:
    """A valid agent name: Latin letters, digits, `.`, `_` and `-`, at most 100 characters.

    Accents are dropped. Where letters of another script are left out, a hash of them keeps two
    names apart.

    Args:
        name: Any text.
        otherwise: Name to use when no valid character is left.
    """
    return _named(name[:_LOOKED_AT]) or otherwise


@functools.lru_cache(maxsize=1024)
def _named(name: str) -> str:
    marked = unicodedata.normalize("NFKD", name)
    plain = "".join(letter for letter in marked if not unicodedata.combining(letter))
    made = re.sub(r"[^A-Za-z0-9._-]+", "-", plain)[:MAX_NAME].strip("-")
    lost = "".join(letter for letter in plain if letter.isalnum() and not letter.isascii())
    if not lost:
        return made
    digest = hashlib.sha256(lost.encode(errors="replace")).hexdigest()[:HASHED]
    return f"{made[: MAX_NAME - HASHED - 1] or 'agent'}-{digest}"
