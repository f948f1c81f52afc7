"""Limits: how many requests a second and how many streams at once a caller may have."""

from __future__ import annotations

import ipaddress
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from ratchet.server.problems import Problem

Clock = Callable[[], float]


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much at once."""

    body_bytes: int = 32 * 1024 * 1024
    """Of a request's body, as it was before its compression."""
    requests_per_s: float = 2000.0
    """Of one key."""
    burst: int = 4000
    """Requests of one key at once, after a pause."""
    streams: int = 512
    """Long polls, event streams and streaming gateway calls of one key that are open at once."""
    pending_spans: int = 50_000
    """Spans that wait for the store."""
    public_per_s: float = 5.0
    """Requests from one address with a key that only gives feedback. Such a key stands in pages:
    whoever reads it there must not be able to stop the others."""
    public_burst: int = 30
    """Such requests at once, after a pause."""
    public_body_bytes: int = 64 * 1024
    """Of the body of such a request."""


class TokenBuckets:
    """A token bucket for each name.

    It is kept as the time at which the bucket will be full again (the generic cell rate
    algorithm), a single number. One whose time has passed is as good as none, so only names that
    were busy lately take memory.

    Args:
        rate: Tokens that come back per second.
        burst: Tokens that a full bucket holds.
        clock: Seconds, from any beginning, never going back.
        most: Names to remember at most; beyond it the oldest begin afresh.
    """

    def __init__(
        self, rate: float, burst: int, clock: Clock = time.monotonic, most: int = 65_536
    ) -> None:
        self._step = 1.0 / rate
        self._slack = (burst - 1) * self._step
        self._clock = clock
        self._most = most
        self._full_at: dict[str, float] = {}
        self._sweep_at = 1024

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, name: str) -> float:
        """Take a token.

        Returns:
            0.0 when there was one; else the seconds until there will be, and none is taken.
        """
        now = self._clock()
        full_at = max(self._full_at.get(name, now), now)
        wait = full_at - now - self._slack
        if wait > 1e-9:
            return wait
        self._full_at[name] = full_at + self._step
        if len(self._full_at) > self._sweep_at:
            self._sweep(now)
        return 0.0

    def give_back(self, name: str) -> None:
        """Return a token that was taken."""
        if name in self._full_at:
            self._full_at[name] -= self._step

    def _sweep(self, now: float) -> None:
        self._full_at = {name: at for name, at in self._full_at.items() if at > now}
        if len(self._full_at) >= self._most:
            # A quarter at once, so that the next sweep is not due with the next name.
            for name in list(self._full_at)[: self._most // 4]:
                del self._full_at[name]
        # Twice what is left: sweeping costs each request a constant share.
        self._sweep_at = min(max(1024, 2 * len(self._full_at)), self._most)


class RateLimiter:
    """Refuses what is beyond the limits of a caller.

    Args:
        limits: The limits of each caller.
        clock: Seconds, from any beginning, never going back.
    """

    def __init__(self, limits: ServerLimits, clock: Clock = time.monotonic) -> None:
        self.limits = limits
        self.open_streams = 0
        """Streams of all callers together."""
        self._buckets = TokenBuckets(limits.requests_per_s, limits.burst, clock)
        self._public = TokenBuckets(limits.public_per_s, limits.public_burst, clock)
        self._streams: dict[str, int] = {}

    def public(self, caller: str, address: str) -> None:
        """Count a request with a key that only gives feedback.

        Raises:
            Problem: 429, as for `request`.
        """
        wait = self._public.take(f"{caller} {network_of(address)}")
        if wait:
            raise Problem(
                429,
                f"More than {self.limits.public_per_s:g} requests a second come from this address"
                " with this key.",
                hint="Raise public_per_s under [server.limits] when many share an address.",
                headers={"retry-after": retry_after(wait)},
            )

    def request(self, caller: str) -> None:
        """Count a request.

        Raises:
            Problem: 429; its `retry-after` says when there is room again.
        """
        wait = self._buckets.take(caller)
        if wait:
            raise Problem(
                429,
                f"This key makes more than {self.limits.requests_per_s:g} requests a second.",
                hint="Send more in one request, or raise requests_per_s under [server.limits].",
                headers={"retry-after": retry_after(wait)},
            )

    @contextmanager
    def stream(self, caller: str) -> Iterator[None]:
        """Hold a stream open for as long as the block runs.

        Raises:
            Problem: 429, when the caller has as many as it may.
        """
        mine = self._streams.get(caller, 0)
        if mine >= self.limits.streams:
            raise Problem(
                429,
                f"This key has {mine} streams open, which is as many as it may.",
                hint="Close some, or raise streams under [server.limits].",
                headers={"retry-after": "1"},
            )
        self._streams[caller] = mine + 1
        self.open_streams += 1
        try:
            yield
        finally:
            self.open_streams -= 1
            left = self._streams[caller] - 1
            if left:
                self._streams[caller] = left
            else:
                del self._streams[caller]


def retry_after(seconds: float) -> str:
    """The value of `retry-after`: whole seconds, at least one."""
    return str(max(1, math.ceil(seconds)))


def network_of(address: str) -> str:
    """What of an address names its holder: of IPv6 the first 64 bits, whoever has one has all."""
    if ":" not in address:
        return address
    try:
        found = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(found) >> 64 << 64, 64)).network_address)
