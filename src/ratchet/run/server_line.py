"""The line to a server, over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from ratchet.run.line import Answers, Line, Pair
from ratchet.types import Candidate, Claim, InputError, Outcome, Rollout

if TYPE_CHECKING:
    from ratchet.client import AsyncClient

MAX_REASON = 1_000
"""Characters of the server's reason that are kept in the outcome it refused."""


class ServerLine(Line):
    """To a server; waiting for work is left to it."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def create(self, rollouts: Sequence[Rollout]) -> int:
        """Queue rollouts."""
        return await self._client.rollouts.create(rollouts)

    async def get(self, ids: Sequence[str]) -> Mapping[str, Rollout]:
        """Rollouts by id."""
        return await self._client.rollouts.get(ids)

    async def candidate(self, id: str) -> Candidate:
        """The candidate of that id; its resources are fetched once."""
        return await self._client.candidates.get(id)

    async def claim(
        self, queue: str, worker: str, limit: int, lease_s: float, *, wait_s: float = 0.0
    ) -> list[Claim]:
        """Take the oldest queued rollouts.

        Cancelled, it hangs up, and the server gives back what it took for it. What was on its way
        in that moment is handed out again when its lease is over.
        """
        return await self._client.rollouts.claim(queue, worker, limit, lease_s, wait_s=wait_s)

    async def heartbeat(self, pairs: Sequence[Pair], lease_s: float) -> set[Pair]:
        """Prolong leases."""
        return await self._client.rollouts.heartbeat(pairs, lease_s)

    async def finish(self, outcomes: Sequence[Outcome]) -> Answers:
        """End attempts. One that the server does not take as it is does not hold up the others."""
        try:
            return await self._client.rollouts.finish(outcomes)
        except InputError as error:
            if len(outcomes) == 1:
                return await self._client.rollouts.finish([_as_failed(outcomes[0], error)])
        middle = len(outcomes) // 2
        first = await self.finish(outcomes[:middle])
        return {**first, **await self.finish(outcomes[middle:])}

    async def release(self, pairs: Sequence[Pair]) -> None:
        """Give attempts back."""
        await self._client.rollouts.release(pairs)


def _as_failed(outcome: Outcome, error: InputError) -> Outcome:
    """The outcome without what the server may not have liked of it."""
    said = f"Its outcome ({outcome.status}) was refused. {str(error)[:MAX_REASON]}"
    return msgspec.structs.replace(
        outcome, status="failed", output=None, error=said, spans=(), scores=()
    )
