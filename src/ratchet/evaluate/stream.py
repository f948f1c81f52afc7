"""Scores rollouts while others still run."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType

from ratchet.evaluate.scoring import Scorer
from ratchet.types import Rollout, Score

GATHER_S = 0.05
"""How long an ended rollout waits for others to be scored with it."""


class ScoreStream:
    """Takes rollouts as they end; use it as `async with ScoreStream(scorer) as stream`.

    Args:
        scorer: What scores them.
    """

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self._ended: list[Rollout] = []
        self._more = asyncio.Event()
        self._closing = asyncio.Event()
        self._scores: dict[str, dict[str, Score]] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, rollout: Rollout) -> None:
        """Take a rollout that ended."""
        self._ended.append(rollout)
        self._more.set()

    async def scores(self) -> dict[str, dict[str, Score]]:
        """Wait until all that was added is scored; scores by rollout id and evaluator name.

        Raises:
            StoreError: The store cannot be read or written.
        """
        self._closing.set()
        self._more.set()
        assert self._task is not None
        await self._task
        return self._scores

    async def __aenter__(self) -> ScoreStream:
        self._task = asyncio.create_task(self._work())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        while not self._closing.is_set() or self._ended:
            await self._more.wait()
            self._more.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), GATHER_S)
            batch, self._ended = self._ended, []
            if batch:
                self._scores.update(await self._scorer.score(batch))
