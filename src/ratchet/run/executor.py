"""What an executor is: the place where attempts of rollouts run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from ratchet.types import Claim, Outcome, Resource

Kind = Literal["auto", "async", "process", "inline"]
"""async: many attempts at once in each of a few workers. process: one at a time in each. inline: as
tasks of this process. auto: async for async agents, else process."""


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

    async def execute(self, claim: Claim, resources: Mapping[str, Resource]) -> Outcome:
        """Run one attempt to its end, whatever that is.

        Raises:
            asyncio.CancelledError: The awaiting task was cancelled; the attempt is stopped.
        """
        ...

    def stored(self, outcomes: Sequence[Outcome]) -> None:
        """Hear that these outcomes are in the store."""
        ...

    async def close(self) -> None:
        """Stop what runs and give everything back."""
        ...
