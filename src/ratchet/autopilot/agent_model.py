"""Starts the local models that an agent calls for the duration of a command."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, TypeVar

from ratchet.autopilot.project import Project

if TYPE_CHECKING:
    from ratchet.autopilot.trainable import TrainableModel
    from ratchet.models import LocalModel

Entered = TypeVar("Entered")


@contextmanager
def agent_model(project: Project, say: Callable[[str], None]) -> Iterator[None]:
    """Start the local models that [agent] model and [[agent.models]] name; stop them at the end.

    Until then, `project.agent_spec` directs the agent's processes to the first, and the gateway
    calls to the others.

    Args:
        project: The project.
        say: Called with a sentence before something is fetched.

    Raises:
        ModelUnavailable: One cannot be had or started.
    """
    if project.agent_model is not None or project.other_models:
        yield
        return
    name = project.config.agent.model
    others = {
        choice
        for section in project.config.agent.models
        for choice in section.choices
        if choice == "local" or choice.startswith("local:")
    }
    with ExitStack() as stack:
        if name is not None:
            project.agent_model = stack.enter_context(_started(project, name, say))
        if others:
            from ratchet.models import shared_model

            project.other_models = {
                other: stack.enter_context(shared_model(other, say, project.root))
                for other in sorted(others)
            }
        try:
            yield
        finally:
            project.agent_model, project.other_models = None, {}


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
