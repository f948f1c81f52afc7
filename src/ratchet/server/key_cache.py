"""Key cache: caches key lookups for a second and batches the updates of last-used times."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from ratchet.server.http_problems import HttpProblem
from ratchet.server.limits import Clock, TokenBuckets, network_of, retry_after
from ratchet.store import Store
from ratchet.types import Key, StoreError

log = logging.getLogger("ratchet.server")

CACHE_TTL_S = 1.0
"""Lifetime of a cached lookup in seconds, which delays the refusal of a revoked key."""

LOOK_UP_S = 5.0
"""Timeout of a lookup, in seconds."""

USED_EVERY_S = 60.0
"""Interval between updates of a key's last-used time, in seconds."""

WRONG_PER_S, WRONG_BURST = 20.0, 200
"""Rate and burst of wrong keys per address; more are refused without a query. Keys cannot be
guessed; the limit protects the store from the load of attempts."""

MAX_KEYS = 10_000
"""Maximum number of cached keys, and as many wrong ones."""


class _Found(NamedTuple):
    key: Key | None
    at: float


class KeyCache:
    """Keys by their secrets, for use from one event loop.

    Args:
        store: Store of the keys.
        clock: Unix seconds.
        ticks: Monotonic clock in seconds.
    """

    def __init__(self, store: Store, clock: Clock, ticks: Clock) -> None:
        self._store = store
        self._clock = clock
        self._ticks = ticks
        # Keyed by hash, so that secrets stay in memory no longer than their request.
        self._valid: dict[bytes, _Found] = {}
        self._invalid: dict[bytes, _Found] = {}
        self._lookups: dict[bytes, asyncio.Task[_Found]] = {}
        self._wrong_keys = TokenBuckets(WRONG_PER_S, WRONG_BURST, ticks)
        self._used_at: dict[str, float] = {}
        self._pending: dict[str, float] = {}
        self._storing: asyncio.Task[None] | None = None
        # Own threads: a lookup must not queue behind requests that are already admitted.
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="ratchet-access")

    async def get(self, secret: bytes, address: str) -> Key | None:
        """The key with that secret, as it was at most a second ago; None if there is none.

        Args:
            secret: The secret in the request, in ASCII.
            address: The client's address.

        Raises:
            HttpProblem: The address has sent too many wrong keys (429), or the store does not
                respond, or not in time (503).
        """
        digest = hashlib.sha256(secret).digest()
        cached = self._valid.get(digest) or self._invalid.get(digest)
        if cached is None or self._ticks() - cached.at >= CACHE_TTL_S:
            cached = await self._look_up(digest, secret, address)
        if cached.key is not None:
            self._note(cached.key)
        return cached.key

    async def close(self) -> None:
        """Store pending last-used times."""
        if self._storing is not None:
            await self._storing
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _look_up(self, digest: bytes, secret: bytes, address: str) -> _Found:
        lookup = self._lookups.get(digest)
        if lookup is None:
            network = "" if digest in self._valid else network_of(address)
            if network and (wait := self._wrong_keys.take(network)):
                raise HttpProblem(
                    429,
                    "Too many wrong keys came from this address.",
                    headers={"retry-after": retry_after(wait)},
                )
            lookup = asyncio.create_task(self._fetch(digest, secret.decode(), network))
            self._lookups[digest] = lookup
            lookup.add_done_callback(lambda task: self._end_lookup(digest, task))
        try:
            # Shielded: other requests may await the same lookup.
            async with asyncio.timeout(LOOK_UP_S):
                return await asyncio.shield(lookup)
        except StoreError as error:
            # Whoever asks has no key yet, so the store's address is none of their business.
            log.warning("A key could not be looked up: %s", error)
            raise HttpProblem(
                503, "The key could not be looked up.", headers={"retry-after": "1"}
            ) from None
        except TimeoutError:
            raise HttpProblem(
                503, "The key could not be looked up in time.", headers={"retry-after": "1"}
            ) from None

    async def _fetch(self, digest: bytes, secret: str, network: str) -> _Found:
        at = self._ticks()
        loop = asyncio.get_running_loop()
        key = await loop.run_in_executor(
            self._threads, lambda: self._store.keys.by_secret(secret, patience_s=LOOK_UP_S)
        )
        if key is not None and network:
            self._wrong_keys.give_back(network)
        cached = _Found(key, at)
        into, out_of = (self._invalid, self._valid) if key is None else (self._valid, self._invalid)
        out_of.pop(digest, None)
        into[digest] = cached
        while len(into) > MAX_KEYS:
            del into[next(iter(into))]
        return cached

    def _end_lookup(self, digest: bytes, task: asyncio.Task[_Found]) -> None:
        del self._lookups[digest]
        if not task.cancelled():
            task.exception()  # Marked as retrieved, in case every waiting client disconnected.

    def _note(self, key: Key) -> None:
        now = self._clock()
        if now - self._used_at.get(key.id, key.last_used_at or 0.0) < USED_EVERY_S:
            return
        if len(self._used_at) > MAX_KEYS:
            self._used_at.clear()
        self._used_at[key.id] = self._pending[key.id] = now
        if self._storing is None or self._storing.done():
            self._storing = asyncio.create_task(self._store_used())

    async def _store_used(self) -> None:
        loop = asyncio.get_running_loop()
        while self._pending:
            batch, self._pending = self._pending, {}
            try:
                await loop.run_in_executor(self._threads, self._store.keys.used, batch)
            except StoreError:
                # The time is informational, and the key's next use after a minute updates it.
                return
