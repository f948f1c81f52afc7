"""Client for language models, and prices of model calls."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ratchet.llm.call import CoachSettings
    from ratchet.llm.chat import COACH_STEP, ChatClient, CoachUnavailable, Message, Reply
    from ratchet.llm.coach import Coach
    from ratchet.llm.ensemble import CoachModel, Ensemble
    from ratchet.llm.prices import (
        ModelPrice,
        Usage,
        dollars,
        load,
        loaded,
        price,
        price_at,
        provider_by_name,
        set_prices,
        why_unknown,
        with_price,
    )
    from ratchet.llm.spending import ACCOUNT, Account, ask_paid, paid_from

_LATER = {
    "ChatClient": "chat",
    "Coach": "coach",
    "CoachUnavailable": "chat",
    "Ensemble": "ensemble",
    "Message": "chat",
    "CoachModel": "ensemble",
    "ModelPrice": "prices",
    "Reply": "chat",
    "ACCOUNT": "spending",
    "Account": "spending",
    "COACH_STEP": "chat",
    "ask_paid": "spending",
    "paid_from": "spending",
    "CoachSettings": "call",
    "Usage": "prices",
    "dollars": "prices",
    "load": "prices",
    "loaded": "prices",
    "price": "prices",
    "price_at": "prices",
    "provider_by_name": "prices",
    "set_prices": "prices",
    "why_unknown": "prices",
    "with_price": "prices",
}
"""Module of each public name; imported on first access."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"ratchet.llm.{_LATER[name]}"), name)
    raise AttributeError(f"module 'ratchet.llm' has no attribute {name!r}")


__all__ = [
    "ACCOUNT",
    "COACH_STEP",
    "Account",
    "ChatClient",
    "Coach",
    "CoachModel",
    "CoachSettings",
    "CoachUnavailable",
    "Ensemble",
    "Message",
    "ModelPrice",
    "Reply",
    "Usage",
    "ask_paid",
    "dollars",
    "load",
    "loaded",
    "paid_from",
    "price",
    "price_at",
    "provider_by_name",
    "set_prices",
    "why_unknown",
    "with_price",
]
