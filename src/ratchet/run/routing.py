"""Routes attempts: those whose candidate has code of its own are contained, others run as usual."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from ratchet.bind import same_behaviour
from ratchet.run.executor import Executor
from ratchet.types import Claim, Code, Outcome, Resource


class RoutedExecutor:
    """Two executors as one.

    Args:
        usual: Runs attempts with the source's own code.
        contained: Runs those with other code. It starts when the first of them comes: most
            projects, and most candidates, never need it.
        source: The source's own code, by resource name.
    """

    def __init__(self, usual: Executor, contained: Executor, source: Mapping[str, Code]) -> None:
        self._usual = usual
        self._contained = contained
        self._source = dict(source)
        self._starting: asyncio.Task[None] | None = None

    @property
    def slots(self) -> int:
        """How many attempts run at once."""
        return self._usual.slots

    async def start(self) -> None:
        """Start the usual one.

        Raises:
            AgentError: The agent does not load where it is to run.
        """
        await self._usual.start()

    async def execute(self, claim: Claim, resources: Mapping[str, Resource]) -> Outcome:
        """Run one attempt where it belongs.

        Raises:
            SandboxUnavailable: It has code of its own, and there is no sandbox here.
            AgentError: The agent does not load inside of the sandbox.
        """
        if not differs(resources, self._source):
            return await self._usual.execute(claim, resources)
        if self._starting is None:
            self._starting = asyncio.create_task(self._contained.start())
        await asyncio.shield(self._starting)
        return await self._contained.execute(claim, resources)

    def stored(self, outcomes: Sequence[Outcome]) -> None:
        """Pass on what is stored."""
        self._usual.stored(outcomes)

    async def close(self) -> None:
        """Close both."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
            await self._contained.close()
        await self._usual.close()


def differs(resources: Mapping[str, Resource], source: Mapping[str, Code]) -> bool:
    """Whether code among these resources does something else than the source's.

    Another docstring alone is no difference: it is read and not run.
    """
    return any(
        isinstance(resource, Code)
        and (name not in source or not same_behaviour(resource, source[name]))
        for name, resource in resources.items()
    )
