"""Agent names: turns any name into one that the store accepts."""

from __future__ import annotations

import functools
import re

MAX_NAME = 100
_LOOKED_AT = 500


def agent_name(name: str, otherwise: str = "agent") -> str:
    """A valid agent name: letters, digits, `.`, `_` and `-`, at most 100 characters.

    Args:
        name: Any text.
        otherwise: Name to use when no valid character is left.
    """
    return _named(name[:_LOOKED_AT]) or otherwise


@functools.lru_cache(maxsize=1024)
def _named(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:MAX_NAME].strip("-")
