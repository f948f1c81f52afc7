"""Computations for earlier sequences, found again by the tokens with which a new sequence
begins."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from ratchet.models.policy.cache import KeyValueCache

BLOCK = 16
"""Number of tokens in a block; shorter beginnings are not found."""


class _Prefix:
    __slots__ = ("bytes", "content", "ids", "keys")

    def __init__(self, ids: tuple[int, ...], keys: list[int], content: list[Any], size: int):
        self.ids, self.keys, self.content, self.bytes = ids, keys, content, size


class PrefixStore:
    """Copies of keys and values of finished sequences; the least recently used are dropped.

    Args:
        limit: Bytes of all copies together; 0 for none.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = 0
        self._prefixes: OrderedDict[int, _Prefix] = OrderedDict()
        self._found: dict[int, _Prefix] = {}
        """The latest prefix that has these blocks, by the hash of version and blocks."""

    def keys(self, version: str, ids: Sequence[int]) -> list[int]:
        """A hash of each beginning of `ids` that consists of whole blocks, shortest first.

        None where nothing is kept.
        """
        if not self._limit:
            return []
        keys, key = [], hash(version)
        for end in range(BLOCK, len(ids) + 1, BLOCK):
            key = hash((key, tuple(ids[end - BLOCK : end])))
            keys.append(key)
        return keys

    def restore(self, version: str, ids: Sequence[int], cache: KeyValueCache, slot: int) -> int:
        """Put what is known of the beginning of `ids` into a slot; return its number of tokens.

        Args:
            version: Version of the weights; those of another version are not used.
            ids: Tokens of the new sequence; the last one is never taken, since it must be read.
            cache: Where it is put.
            slot: A slot that was cleared.
        """
        for key in reversed(self.keys(version, ids)):
            prefix = self._found.get(key)
            if prefix is None:
                continue
            most = min(len(prefix.ids), len(ids) - 1)
            count = next((i for i in range(most) if prefix.ids[i] != ids[i]), most)
            if count < BLOCK:  # two beginnings with the same hash
                continue
            self._prefixes.move_to_end(id(prefix))
            cache.put(slot, count, prefix.content)
            return count
        return 0

    def covers(self, key: int) -> bool:
        """Whether a beginning with this hash is known."""
        return key in self._found

    def add(self, version: str, ids: Sequence[int], cache: KeyValueCache, slot: int) -> None:
        """Keep a copy of a slot that holds exactly `ids`."""
        keys = self.keys(version, ids)
        size = cache.bytes_per_token * len(ids)
        if not keys or size > self._limit:
            return
        existing = self._found.get(keys[-1])
        if existing is not None and len(existing.ids) >= len(ids):
            self._prefixes.move_to_end(id(existing))
            return
        prefix = _Prefix(tuple(ids), keys, cache.take(slot, len(ids)), size)
        self._prefixes[id(prefix)] = prefix
        self._bytes += size
        # A prefix whose blocks all belong to the new one is never found again.
        for key in keys:
            self._found[key] = prefix
        if existing is not None and existing.ids == prefix.ids[: len(existing.ids)]:
            self._drop(existing)
        while self._bytes > self._limit:
            self._drop(next(iter(self._prefixes.values())))

    def _drop(self, prefix: _Prefix) -> None:
        del self._prefixes[id(prefix)]
        self._bytes -= prefix.bytes
        for key in prefix.keys:
            if self._found.get(key) is prefix:
                del self._found[key]
