"""What an executor is: the place where attempts of rollouts run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from ratchet.types import Claim, Outcome, Resource, RolloutStatus


class Ended(msgspec.Struct, frozen=True):
    """An attempt that ended."""

    outcome: Outcome
    settled: bool = False
    """Whether the store has the outcome already: workers write theirs themselves."""
    status: RolloutStatus | None = None
    """When settled: the rollout's status after it, or None when the store refused it."""


class Executor(Protocol):
    """Runs attempts. Each of them ends, however the agent behaves, and never harms another."""

    @property
    def slots(self) -> int:
        """How many attempts run at once."""
        ...

    async def start(self) -> None:
        """Get ready.

        Raises:
            AgentError: The agent does not load where it is to run.
        """
        ...

    async def execute(self, claim: Claim, resources: Mapping[str, Resource]) -> Ended:
        """Run one attempt to its end, whatever that is.

        Raises:
            asyncio.CancelledError: The awaiting task was cancelled; the attempt is stopped.
        """
        ...

    async def close(self) -> None:
        """Stop what runs and give everything back."""
        ...
