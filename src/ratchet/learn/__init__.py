"""Learning: the lab and the algorithms that search for better candidates in it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ratchet.learn.algorithm import Algorithm, Finding
    from ratchet.learn.budget import Budget, BudgetExhausted, Spent
    from ratchet.learn.lab import Lab
    from ratchet.learn.tune import Tune
    from ratchet.learn.work import Evaluation, LabSettings, Proposal, mean, objective_value

_LATER = {
    "Algorithm": "algorithm",
    "Budget": "budget",
    "BudgetExhausted": "budget",
    "Evaluation": "work",
    "Finding": "algorithm",
    "Lab": "lab",
    "Proposal": "work",
    "Spent": "budget",
    "Tune": "tune",
    "LabSettings": "work",
    "mean": "work",
    "objective_value": "work",
}
"""Modules by name, imported on first access."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"ratchet.learn.{_LATER[name]}"), name)
    raise AttributeError(f"module 'ratchet.learn' has no attribute {name!r}")


__all__ = [
    "Algorithm",
    "Budget",
    "BudgetExhausted",
    "Evaluation",
    "Finding",
    "Lab",
    "LabSettings",
    "Proposal",
    "Spent",
    "Tune",
    "mean",
    "objective_value",
]
