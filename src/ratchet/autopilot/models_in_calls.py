"""Models that an agent's calls name, which the gateway can replace."""

from __future__ import annotations

from ratchet.run.program import AnyAgent
from ratchet.store import Store
from ratchet.types import Candidate, Declaration, Model


def adopt_models(store: Store, agent: AnyAgent, candidate: Candidate) -> None:
    """Declare the models that candidates may replace in the agent's calls, as source resources.

    They were found in its calls, and are in no configuration.

    Args:
        store: The store with the candidate's ancestors.
        agent: The agent; its declarations are added to.
        candidate: A candidate of it.
    """
    found = {
        name: Declaration(name, model, located_by="text")
        for origin in store.candidates.origins(candidate)
        for name, model in origin.resources.items()
        if isinstance(model, Model) and model.in_calls and name not in agent.declarations
    }
    if found:
        agent.declarations = {**agent.declarations, **found}


def models_in_calls(agent: AnyAgent) -> bool:
    """Whether the gateway may have to replace the model in the agent's calls."""
    resources = (declaration.resource for declaration in agent.declarations.values())
    return any(isinstance(resource, Model) and bool(resource.in_calls) for resource in resources)
