"""Names of agents: what a person or another system calls one, as the store calls it."""

from __future__ import annotations

import functools
import re

MAX_NAME = 100
_LOOKED_AT = 500


def agent_name(name: str, otherwise: str = "agent") -> str:
    """A name as one of an agent: letters, digits, `.`, `_` and `-`, a hundred at most.

    Args:
        name: What somebody calls it.
        otherwise: What it is called when nothing is left of that.
    """
    return _named(name[:_LOOKED_AT]) or otherwise


@functools.lru_cache(maxsize=1024)
def _named(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:MAX_NAME].strip("-")
