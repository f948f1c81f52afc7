"""The local model that an agent calls: started for a command, and stopped after it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, TypeVar

from ratchet.autopilot.project import Project

if TYPE_CHECKING:
    from ratchet.autopilot.trainable import TrainableModel
    from ratchet.models import LocalModel

Entered = TypeVar("Entered")


@contextmanager
def agent_model(project: Project, say: Callable[[str], None]) -> Iterator[None]:
    """Start the model that [agent] model names, if it names one; stop it at the end.

    Until then, `project.agent_spec` directs the agent's processes to it.

    Args:
        project: The project.
        say: Called with a sentence before something is fetched.

    Raises:
        ModelUnavailable: It cannot be had or started.
    """
    name = project.config.agent.model
    if name is None or project.agent_model is not None:
        yield
        return
    with _started(project, name, say) as model:
        project.agent_model = model
        try:
            yield
        finally:
            project.agent_model = None


def _started(
    project: Project, name: str, say: Callable[[str], None]
) -> AbstractContextManager[LocalModel | TrainableModel]:
    if project.trains_weights:
        from ratchet.autopilot.trainable import trainable_model

        agent, path = project.config.agent, name.partition(":")[2]
        return trainable_model(
            str(project.root / path) if path and (project.root / path).exists() else name,
            project.state,
            say,
            device=agent.device,
            dtype=agent.dtype,
        )
    from ratchet.models import shared_model

    return shared_model(name, say, project.root)


@asynccontextmanager
async def in_thread(manager: AbstractContextManager[Entered]) -> AsyncIterator[Entered]:
    """Enter and leave a context manager that blocks, such as one that starts a model."""
    entered = await asyncio.to_thread(manager.__enter__)
    try:
        yield entered
    finally:
        await asyncio.to_thread(manager.__exit__, None, None, None)
