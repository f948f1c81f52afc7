"""Retry delays: exponential backoff with jitter, and `Retry-After` headers."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

MIN_BACK_OFF_S, MAX_BACK_OFF_S = 0.5, 30.0


def delay(tries: int, asked_s: float | None, rng: random.Random) -> float:
    """Seconds to wait before the next attempt.

    Exponential, with half of it random so that clients that failed together do not retry together
    (Brooker 2015, "Exponential backoff and jitter"). A delay requested by the server is respected.

    Args:
        tries: Number of failed attempts, at least 1.
        asked_s: Seconds requested by the server, if any.
        rng: Source of the jitter.
    """
    own: float = min(MAX_BACK_OFF_S, MIN_BACK_OFF_S * 2.0 ** min(tries - 1, 20)) * rng.uniform(
        0.5, 1.0
    )
    if asked_s is None:
        return own
    return asked_s + min(own, 1.0) * rng.random()


def requested_delay(headers: Mapping[str, str], now: float) -> float | None:
    """Parse the delay requested by response headers.

    Reads `Retry-After` as seconds or a date (RFC 9110, section 10.2.3), and `retry-after-ms`.

    Args:
        headers: By lower-case name.
        now: Unix seconds.

    Returns:
        Seconds, at least 0; None if no header can be parsed.
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        try:
            seconds = float(value) / unit
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
