"""Candidate cache: fetches the resources of each candidate once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping

from ratchet.run.transport import RunnerTransport
from ratchet.types import Candidate, Resource

MAX_CACHED = 64
"""Maximum number of fetched candidates to cache; the least recently used is evicted."""


class CandidateCache:
    """Resources by candidate id. The empty id is the agent's own source, unchanged."""

    def __init__(self, transport: RunnerTransport) -> None:
        self._transport = transport
        self._added: dict[str, Mapping[str, Resource]] = {"": {}}
        """Never evicted: they may not be in the store."""
        self._fetched: OrderedDict[str, asyncio.Task[Mapping[str, Resource]]] = OrderedDict()

    def add(self, candidate: Candidate) -> None:
        """Add a candidate; it is never evicted."""
        self._added[candidate.id] = candidate.resources

    async def resources(self, candidate_id: str) -> Mapping[str, Resource]:
        """The candidate's resources; concurrent callers share one request.

        Raises:
            InputError: There is no such candidate.
            StoreError: The store is unreachable.
        """
        added = self._added.get(candidate_id)
        if added is not None:
            return added
        fetching = self._fetched.get(candidate_id)
        if fetching is None:
            fetching = self._fetched[candidate_id] = asyncio.create_task(self._fetch(candidate_id))
            while len(self._fetched) > MAX_CACHED:
                self._fetched.popitem(last=False)
        self._fetched.move_to_end(candidate_id)
        try:
            return await asyncio.shield(fetching)
        except Exception:
            # Not cached: the next request may succeed.
            if self._fetched.get(candidate_id) is fetching:
                del self._fetched[candidate_id]
            raise

    async def _fetch(self, candidate_id: str) -> Mapping[str, Resource]:
        return (await self._transport.candidate(candidate_id)).resources

    async def close(self) -> None:
        """Cancel pending requests."""
        for fetching in self._fetched.values():
            fetching.cancel()
        await asyncio.gather(*self._fetched.values(), return_exceptions=True)
