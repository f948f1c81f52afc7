"""Known candidates: the resources that rollouts run with, fetched once each."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping

from ratchet.run.transport import RunnerTransport
from ratchet.types import Candidate, Resource

MAX_CACHED = 64
"""Fetched candidates that are remembered."""


class CandidateCache:
    """Resources by candidate. The empty id is the agent's own source, as it stands."""

    def __init__(self, line: RunnerTransport) -> None:
        self._line = line
        self._given: dict[str, Mapping[str, Resource]] = {"": {}}
        """Never forgotten: whoever gave them may not have stored them."""
        self._fetched: OrderedDict[str, asyncio.Task[Mapping[str, Resource]]] = OrderedDict()

    def give(self, candidate: Candidate) -> None:
        """Know this one from now on."""
        self._given[candidate.id] = candidate.resources

    async def resources(self, candidate_id: str) -> Mapping[str, Resource]:
        """The candidate's resources; who asks at the same time shares one request.

        Raises:
            InputError: There is no such candidate.
            StoreError: The store cannot be reached.
        """
        given = self._given.get(candidate_id)
        if given is not None:
            return given
        fetching = self._fetched.get(candidate_id)
        if fetching is None:
            fetching = self._fetched[candidate_id] = asyncio.create_task(self._fetch(candidate_id))
            while len(self._fetched) > MAX_CACHED:
                self._fetched.popitem(last=False)
        self._fetched.move_to_end(candidate_id)
        try:
            return await asyncio.shield(fetching)
        except Exception:
            # It may be there the next time.
            if self._fetched.get(candidate_id) is fetching:
                del self._fetched[candidate_id]
            raise

    async def _fetch(self, candidate_id: str) -> Mapping[str, Resource]:
        return (await self._line.candidate(candidate_id)).resources

    async def close(self) -> None:
        """Stop fetching."""
        for fetching in self._fetched.values():
            fetching.cancel()
        await asyncio.gather(*self._fetched.values(), return_exceptions=True)
