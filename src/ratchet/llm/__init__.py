"""Models: asking them, and what a call of one costs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ratchet.llm.asking import STEP, Asks, CoachUnavailable, Message, Reply
    from ratchet.llm.call import Settings
    from ratchet.llm.coach import Coach
    from ratchet.llm.ensemble import Ensemble, Model
    from ratchet.llm.prices import Usage, dollars, load, loaded
    from ratchet.llm.recorded import price, with_price

_LATER = {
    "Asks": "asking",
    "Coach": "coach",
    "CoachUnavailable": "asking",
    "Ensemble": "ensemble",
    "Message": "asking",
    "Model": "ensemble",
    "Reply": "asking",
    "STEP": "asking",
    "Settings": "call",
    "Usage": "prices",
    "dollars": "prices",
    "load": "prices",
    "loaded": "prices",
    "price": "recorded",
    "with_price": "recorded",
}
"""Modules by name: each is imported when it is first named."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"ratchet.llm.{_LATER[name]}"), name)
    raise AttributeError(f"module 'ratchet.llm' has no attribute {name!r}")


__all__ = [
    "STEP",
    "Asks",
    "Coach",
    "CoachUnavailable",
    "Ensemble",
    "Message",
    "Model",
    "Reply",
    "Settings",
    "Usage",
    "dollars",
    "load",
    "loaded",
    "price",
    "with_price",
]
