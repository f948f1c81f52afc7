"""Ratchet: observe, evaluate, learn, prove, ship, for an existing LLM agent.

Names used in an agent's source are imported at once; the others on first use. Those of the tool,
such as `Trainer`, need the tool beside the SDK.
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
    from ratchet.learn import Tune
    from ratchet.learn.apo import APO
    from ratchet.learn.auto import Auto
    from ratchet.learn.evolve import Evolve
    from ratchet.learn.few_shot import FewShot
    from ratchet.learn.gepa import GEPA
    from ratchet.observe.feedback import feedback
    from ratchet.server.trainer import Trainer
    from ratchet.store import Store
    from ratchet.worker.evaluator import Judgement, evaluator
    from ratchet.worker.lit_agent import LitAgent

_LATER = {
    "AsyncClient": "ratchet.client",
    "Client": "ratchet.client",
    "Judgement": "ratchet.worker.evaluator",
    "LitAgent": "ratchet.worker.lit_agent",
    "evaluator": "ratchet.worker.evaluator",
    "feedback": "ratchet.observe.feedback",
    "tool_schema": "ratchet.bind.tool_schema",
}
"""Names from heavy modules, imported on first use."""

_TOOL = "ratchet.tool"
"""Group of the entry points by which the tool, where it is installed, adds names to this module."""

_OF_TOOL = (
    *("APO", "DPO", "GEPA", "GRPO", "PPO", "SFT", "Auto", "Evolve", "FewShot", "Tune"),
    *("Store", "Trainer", "show"),
)


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    if name in _OF_TOOL:
        from importlib.metadata import entry_points  # takes 40 ms

        for found in entry_points(group=_TOOL, name=name):
            return found.load()
        raise ImportError(
            f"ratchet.{name} is a part of the tool, which is not installed here."
            " Install it: pip install 'agent-ratchet[tool]'"
        )
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
    "Judgement",
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
