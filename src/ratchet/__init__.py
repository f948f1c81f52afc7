"""Ratchet: observe, evaluate, learn, prove, ship, for an LLM agent you already have.

What an agent's own source uses is here at once; everything else is imported when first named.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ratchet._version import __version__
from ratchet.bind import activate, evolve, model, params, prompt
from ratchet.observe import (
    agent,
    conversation,
    emit_reward,
    init,
    llm_call,
    retriever,
    rollout,
    tool,
    trace,
)
from ratchet.types import (
    Bool,
    Candidate,
    Choice,
    Code,
    Dataset,
    Float,
    Int,
    Model,
    Params,
    PromptTemplate,
    RatchetError,
    Rollout,
    Score,
    Span,
    Task,
)

if TYPE_CHECKING:
    from ratchet.autopilot.training import Trainer
    from ratchet.client import AsyncClient, Client
    from ratchet.evaluate import evaluator
    from ratchet.learn import Tune
    from ratchet.observe.feedback import feedback
    from ratchet.run.lit_agent import LitAgent
    from ratchet.store import Store

_LATER = {
    "AsyncClient": "ratchet.client",
    "Client": "ratchet.client",
    "LitAgent": "ratchet.run.lit_agent",
    "Store": "ratchet.store",
    "Trainer": "ratchet.autopilot.training",
    "Tune": "ratchet.learn",
    "evaluator": "ratchet.evaluate",
    "feedback": "ratchet.observe.feedback",
}
"""Names whose rooms are heavy: imported when somebody asks."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'ratchet' has no attribute {name!r}")


__all__ = [
    "AsyncClient",
    "Bool",
    "Candidate",
    "Choice",
    "Client",
    "Code",
    "Dataset",
    "Float",
    "Int",
    "LitAgent",
    "Model",
    "Params",
    "PromptTemplate",
    "RatchetError",
    "Rollout",
    "Score",
    "Span",
    "Store",
    "Task",
    "Trainer",
    "Tune",
    "__version__",
    "activate",
    "agent",
    "conversation",
    "emit_reward",
    "evaluator",
    "evolve",
    "feedback",
    "init",
    "llm_call",
    "model",
    "params",
    "prompt",
    "retriever",
    "rollout",
    "tool",
    "trace",
]
