"""Attempts in an executor without a queue, and what is left of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from ratchet.run import Executor
from ratchet.types import Candidate, Claim, Outcome
from ratchet.worker.agent import AgentSpec


def use(executor: Executor, work: Callable[[], Awaitable[Any]]) -> Any:
    """What `work` returns, done between the executor's start and its end."""

    async def main() -> Any:
        await executor.start()
        try:
            async with asyncio.timeout(50):
                return await work()
        finally:
            await executor.close()

    return asyncio.run(main())


def execute(executor: Executor, claims: list[Claim], candidate: Candidate) -> list[Outcome]:
    """How attempts end that begin at the same time."""

    async def work() -> list[Outcome]:
        return await asyncio.gather(*(executor.execute(c, candidate.resources) for c in claims))

    outcomes: list[Outcome] = use(executor, work)
    return outcomes


def in_turn(executor: Executor, claims: list[Claim]) -> list[Outcome]:
    """How attempts end that run one after another, with the source's own resources."""

    async def work() -> list[Outcome]:
        return [await executor.execute(claim, {}) for claim in claims]

    outcomes: list[Outcome] = use(executor, work)
    return outcomes


def started(agent: AgentSpec) -> list[str]:
    """What the agent wrote down at the beginning of each attempt."""
    return (Path(agent.root) / "started").read_text().split("\n")[:-1]
