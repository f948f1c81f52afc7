"""Rate limits: requests per second and concurrent streams of each caller."""

from __future__ import annotations

import ipaddress
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from ratchet.server.http_problems import HttpProblem

Clock = Callable[[], float]


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the server and of each key."""

    body_bytes: int = 32 * 1024 * 1024
    """Largest request body, after decompression."""
    requests_per_s: float = 2000.0
    """Requests per second of one key."""
    burst: int = 4000
    """Largest burst of requests of one key."""
    streams: int = 512
    """Concurrent long polls, event streams and streaming gateway calls of one key."""
    pending_spans: int = 50_000
    """Maximum number of spans that wait to be stored."""
    public_per_s: float = 5.0
    """Requests per second from one address with a feedback-only key. Such keys are published in web
    pages, so one visitor must not be able to exhaust the limit of the others.
    """
    public_burst: int = 30
    """Largest burst of such requests."""
    public_body_bytes: int = 64 * 1024
    """Largest body of such a request."""


class TokenBuckets:
    """A token bucket per name.

    Each bucket is one number, the time at which it will be full again (the generic cell rate
    algorithm). Full buckets are dropped, so only recently active names use memory.

    Args:
        rate: Tokens refilled per second.
        burst: Capacity in tokens.
        clock: Monotonic clock in seconds.
        most: Maximum number of buckets; beyond it the oldest are reset.
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
            0.0 when one was available; else the seconds until one will be, and none is taken.
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
            # Drop a quarter at once, so that the next new name does not trigger a sweep again.
            for name in list(self._full_at)[: self._most // 4]:
                del self._full_at[name]
        # Doubling the threshold makes the amortised cost of sweeping constant per request.
        self._sweep_at = min(max(1024, 2 * len(self._full_at)), self._most)


class RateLimiter:
    """Refuses requests and streams beyond the limits of a caller.

    Args:
        limits: The limits of each caller.
        clock: Monotonic clock in seconds.
    """

    def __init__(self, limits: ServerLimits, clock: Clock = time.monotonic) -> None:
        self.limits = limits
        self.open_streams = 0
        """Open streams of all callers."""
        self._buckets = TokenBuckets(limits.requests_per_s, limits.burst, clock)
        self._public = TokenBuckets(limits.public_per_s, limits.public_burst, clock)
        self._streams: dict[str, int] = {}

    def public(self, caller: str, address: str) -> None:
        """Count a request with a feedback-only key.

        Raises:
            HttpProblem: 429, as for `request`.
        """
        wait = self._public.take(f"{caller} {network_of(address)}")
        if wait:
            raise HttpProblem(
                429,
                f"This address sends more than {self.limits.public_per_s:g} requests a second with"
                " this key.",
                hint="If many clients share an address, raise public_per_s under [server.limits].",
                headers={"retry-after": retry_after(wait)},
            )

    def request(self, caller: str) -> None:
        """Count a request.

        Raises:
            HttpProblem: 429, with `retry-after`.
        """
        wait = self._buckets.take(caller)
        if wait:
            raise HttpProblem(
                429,
                f"This key makes more than {self.limits.requests_per_s:g} requests a second.",
                hint="Send more in one request, or raise requests_per_s under [server.limits].",
                headers={"retry-after": retry_after(wait)},
            )

    @contextmanager
    def stream(self, caller: str) -> Iterator[None]:
        """Count a stream as open while the block runs.

        Raises:
            HttpProblem: 429, when the caller has reached its limit.
        """
        mine = self._streams.get(caller, 0)
        if mine >= self.limits.streams:
            raise HttpProblem(
                429,
                f"This key has {mine} streams open, which is the limit.",
                hint="Close some streams, or raise streams under [server.limits].",
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
    """Value of a `retry-after` header: whole seconds, at least one."""
    return str(max(1, math.ceil(seconds)))


def network_of(address: str) -> str:
    """The part of an address that limits apply to: the /64 network of an IPv6 address."""
    if ":" not in address:
        return address
    try:
        ipv6 = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if ipv6.ipv4_mapped is not None:
        return str(ipv6.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(ipv6) >> 64 << 64, 64)).network_address)
