"""Models: those that agents called, and when their providers retire them."""

from __future__ import annotations

import datetime
import time

import msgspec

from ratchet.llm.endings import ending_of
from ratchet.server.routes import READ, RouteGroup
from ratchet.server.services import Services
from ratchet.store import Store

group = RouteGroup("models")

LOOK_BACK_S = 30 * 86_400.0
"""Seconds for which a call counts."""


class ModelView(msgspec.Struct, frozen=True, kw_only=True):
    """A model that an agent called."""

    model: str
    """The name that the agent asked for."""
    provider: str
    agent: str
    """The live agent; empty for calls of rollouts."""
    last_at: float
    """When it was last called, in Unix seconds."""
    ending: str = ""
    """The provider's announcement, in a sentence; empty if none is known."""
    past: bool = False
    """Whether it has ended."""
    source: str = ""
    """Who says so."""
    command: str = ""
    """The command that moves the agent to another model and proves it no worse."""


class ModelList(msgspec.Struct, frozen=True):
    """Models called in the last 30 days: those that are retired soonest come first, then the most
    recently called."""

    models: list[ModelView]


@group.route("GET", "/v1/models", READ)
async def list_models(server: Services) -> ModelList:
    """List the models that agents called, with their announced ends."""
    return await server.in_thread(_models, server.store, time.time())


def _models(store: Store, now: float) -> ModelList:
    today = datetime.datetime.fromtimestamp(now, datetime.UTC).date()
    models = []
    for called in store.called_models.list(int((now - LOOK_BACK_S) * 1e9)):
        end = ending_of(called.model, called.provider)
        models.append(
            ModelView(
                model=called.model,
                provider=called.provider,
                agent=called.agent,
                last_at=called.last_ns / 1e9,
                ending=end.sentence(today) if end else "",
                past=end.is_past(today) if end else False,
                source=end.source if end else "",
                command=end.command() if end else "",
            )
        )
    return ModelList(sorted(models, key=lambda model: (not model.ending, -model.last_at)))
