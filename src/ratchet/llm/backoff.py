"""How long to wait before a call is tried again, and what a server says of it."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

FIRST_S, MOST_S = 0.5, 30.0


def delay(tries: int, asked_s: float | None, chance: random.Random) -> float:
    """Seconds to wait after so many tries that failed.

    Doubling, with half of it by chance so that those who failed together do not come back together
    (Brooker 2015, "Exponential backoff and jitter"). A server that asks for a time gets it.

    Args:
        tries: How many have failed, at least 1.
        asked_s: Seconds that the server asked for, if it did.
        chance: Where the jitter comes from.
    """
    own: float = min(MOST_S, FIRST_S * 2.0 ** min(tries - 1, 20)) * chance.uniform(0.5, 1.0)
    if asked_s is None:
        return own
    return asked_s + min(own, 1.0) * chance.random()


def requested_delay(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that an answer's headers ask to wait: `Retry-After` as seconds or a date, RFC 9110
    section 10.2.3, or `retry-after-ms`.

    Args:
        headers: By lower-case name.
        now: Unix seconds.

    Returns:
        At least 0; None when they say nothing that can be understood.
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        said = headers.get(name, "").strip()
        try:
            seconds = float(said) / unit
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    try:
        date = parsedate_to_datetime(headers.get("retry-after", ""))
        if date.tzinfo is None:
            date = date.replace(tzinfo=UTC)
        return max(0.0, date.timestamp() - now)
    except (ValueError, OverflowError):
        return None
