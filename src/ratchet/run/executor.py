"""Protocol of executors, which run attempts of rollouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from ratchet.types import Claim, Outcome, Resource

Kind = Literal["auto", "async", "process", "inline", "ray"]
"""async: a few worker processes with many attempts at once in each. process: worker processes with
one attempt at a time in each. inline: in this process. ray: actors of a Ray cluster with one
attempt at a time in each. auto: async for async agents, else process."""


class Executor(Protocol):
    """Runs attempts. Each of them ends, however the agent behaves, and none affects another."""

    @property
    def slots(self) -> int:
        """Number of concurrent attempts."""
        ...

    async def start(self) -> None:
        """Prepare to run attempts.

        Raises:
            AgentError: The agent does not load.
        """
        ...

    async def execute(self, claim: Claim, resources: Mapping[str, Resource]) -> Outcome:
        """Run one attempt to its end; failures are outcomes, too.

        Raises:
            asyncio.CancelledError: The awaiting task was cancelled; the attempt is stopped.
        """
        ...

    def stored(self, outcomes: Sequence[Outcome]) -> None:
        """Called when these outcomes are in the store: the executor may forget them."""
        ...

    async def close(self) -> None:
        """Stop running attempts and release all resources."""
        ...
