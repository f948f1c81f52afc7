"""Ratchet: observe, evaluate, learn, prove, ship, for an existing LLM agent.

Names used in an agent's source are imported at once; the others on first use.
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
    from ratchet.autopilot.algorithms import DPO, GRPO, PPO, SFT
    from ratchet.autopilot.notebook import show
    from ratchet.bind.tool_schema import tool_schema
    from ratchet.client import AsyncClient, Client
    from ratchet.evaluate import evaluator
    from ratchet.learn import Tune
    from ratchet.learn.apo import APO
    from ratchet.learn.auto import Auto
    from ratchet.learn.evolve import Evolve
    from ratchet.learn.few_shot import FewShot
    from ratchet.learn.gepa import GEPA
    from ratchet.observe.feedback import feedback
    from ratchet.run.lit_agent import LitAgent
    from ratchet.server.trainer import Trainer
    from ratchet.store import Store

_LATER = {
    "APO": "ratchet.learn.apo",
    "AsyncClient": "ratchet.client",
    "Auto": "ratchet.learn.auto",
    "Client": "ratchet.client",
    "DPO": "ratchet.autopilot.algorithms",
    "Evolve": "ratchet.learn.evolve",
    "FewShot": "ratchet.learn.few_shot",
    "GEPA": "ratchet.learn.gepa",
    "GRPO": "ratchet.autopilot.algorithms",
    "LitAgent": "ratchet.run.lit_agent",
    "PPO": "ratchet.autopilot.algorithms",
    "SFT": "ratchet.autopilot.algorithms",
    "Store": "ratchet.store",
    "Trainer": "ratchet.server.trainer",
    "Tune": "ratchet.learn",
    "evaluator": "ratchet.evaluate",
    "feedback": "ratchet.observe.feedback",
    "show": "ratchet.autopilot.notebook",
    "tool_schema": "ratchet.bind.tool_schema",
}
"""Names from heavy packages, imported on first use."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'ratchet' has no attribute {name!r}")


__all__ = [
    "APO",
    "DPO",
    "GEPA",
    "GRPO",
    "PPO",
    "SFT",
    "AsyncClient",
    "Auto",
    "Bool",
    "Candidate",
    "Choice",
    "Client",
    "Code",
    "Dataset",
    "Evolve",
    "FewShot",
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
    "show",
    "tool",
    "tool_schema",
    "trace",
]
