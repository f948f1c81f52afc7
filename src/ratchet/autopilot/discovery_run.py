"""Runs an unchanged agent on a few train tasks, before it is known what may change in it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ratchet.autopilot.project import Project
from ratchet.autopilot.runner import Say, open_runner
from ratchet.run.program import AnyAgent
from ratchet.store import Store
from ratchet.types import Candidate, Rollout, Task


async def run_unchanged(
    project: Project,
    store: Store,
    agent: AnyAgent,
    tasks: Sequence[Task],
    *,
    queue: str,
    scope: Sequence[str | int],
    say: Say,
) -> list[Rollout]:
    """Run the agent on tasks, with its model calls through the gateway.

    Args:
        project: The project.
        store: Its store.
        agent: The agent.
        tasks: The tasks.
        queue: Name of the queue.
        scope: Part of the rollouts' identity: with the same scope they are not run again.
        say: Called when there is something to wait for.

    Returns:
        The ended rollouts, in the order of the tasks.
    """
    unchanged = Candidate.of({}, reason="The agent as it is, before what may change is known.")
    store.candidates.put(unchanged, time.time())
    rollouts = [
        Rollout.of(
            task,
            unchanged.id,
            scope=scope,
            seed_parts=[0],
            queue=queue,
            purpose="discover",
            max_attempts=project.config.run.attempts,
        )
        for task in tasks
    ]
    async with open_runner(
        project, store, agent, queue, say, take_over=True, through_gateway=True
    ) as runner:
        ended = await runner.run(rollouts, [unchanged])
    return [ended[rollout.id] for rollout in rollouts]
