"""Loading cache: values read from the store in a thread and cached for a short time."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Generic, TypeVar

from ratchet.types import RatchetError, StoreError

Value = TypeVar("Value")

ERROR_S = 2.0
"""Lifetime of a cached error, in seconds."""

_log = logging.getLogger(__name__)


class _Entry(Generic[Value]):
    __slots__ = ("error", "read_at", "value")

    def __init__(self, value: Value | None, error: RatchetError | None, read_at: float) -> None:
        self.value = value
        self.error = error
        self.read_at = read_at


class LoadingCache(Generic[Value]):
    """Values by key. Concurrent requests for a key share one read.

    When a read fails, the previous value stays valid; without one the error is raised.

    Args:
        load: Reads a value; runs in a thread.
        executor: Executor of the reads.
        clock: Monotonic clock in seconds.
        ttl_s: Lifetime of a value, in seconds.
        limit: Maximum number of values; the least recently used are evicted.
        timeout_s: Seconds that a caller waits for a read.
    """

    def __init__(
        self,
        load: Callable[[str], Value],
        *,
        executor: Executor,
        clock: Callable[[], float],
        ttl_s: float,
        limit: int,
        timeout_s: float,
    ) -> None:
        self._load = load
        self._executor = executor
        self._clock = clock
        self._ttl_s = ttl_s
        self._limit = limit
        self._timeout_s = timeout_s
        self._entries: OrderedDict[str, _Entry[Value]] = OrderedDict()
        self._reads: dict[str, asyncio.Task[_Entry[Value]]] = {}

    async def get(self, key: str) -> Value:
        """Get a value.

        Raises:
            RatchetError: It cannot be read, and no previous value is cached.
        """
        entry = self._entries.get(key)
        if entry is None or self._clock() - entry.read_at >= (
            self._ttl_s if entry.error is None else min(self._ttl_s, ERROR_S)
        ):
            entry = await self._read(key)
        else:
            self._entries.move_to_end(key)
        if entry.value is not None:
            return entry.value
        assert entry.error is not None
        # A new instance, since an exception raised repeatedly accumulates tracebacks.
        raise type(entry.error)(entry.error.message, hint=entry.error.hint)

    async def _read(self, key: str) -> _Entry[Value]:
        read = self._reads.get(key)
        if read is None:
            read = self._reads[key] = asyncio.create_task(self._fetch(key))
        # Not awaited directly: a cancelled caller must not cancel a read that others share.
        await asyncio.wait({read}, timeout=self._timeout_s)
        if read.done():
            return read.result()
        late = StoreError(f"The store did not respond within {self._timeout_s:g} s.")
        return self._note(key, None, late)

    async def _fetch(self, key: str) -> _Entry[Value]:
        loop = asyncio.get_running_loop()
        try:
            value = await loop.run_in_executor(self._executor, self._load, key)
        except RatchetError as error:
            return self._note(key, None, error)
        except Exception as error:
            _log.exception("The gateway could not read from the store.")
            failure = StoreError(
                f"The store could not be read: {type(error).__name__}.",
                hint="The server's log has the details.",
            )
            return self._note(key, None, failure)
        else:
            return self._note(key, value, None)
        finally:
            del self._reads[key]

    def _note(self, key: str, value: Value | None, error: RatchetError | None) -> _Entry[Value]:
        if error is not None:
            before = self._entries.get(key)
            if before is not None and before.value is not None:
                _log.warning("The previous value is used: %s", error)
                value = before.value
        entry = self._entries[key] = _Entry(value, error, self._clock())
        self._entries.move_to_end(key)
        while len(self._entries) > self._limit:
            self._entries.popitem(last=False)
        return entry
