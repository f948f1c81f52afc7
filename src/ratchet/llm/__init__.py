"""Models: asking them, and what a call of one costs."""

from ratchet.llm.asking import STEP, Asks, CoachUnavailable, Message, Reply
from ratchet.llm.call import Settings
from ratchet.llm.coach import Coach
from ratchet.llm.ensemble import Ensemble, Model
from ratchet.llm.prices import Usage, dollars, load, loaded
from ratchet.llm.recorded import price, with_price

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
