"""Models: asking them, and what a call of one costs."""

from ratchet.llm.asking import Asks, CoachUnavailable, Message, Reply
from ratchet.llm.prices import Usage, dollars, load, loaded
from ratchet.llm.recorded import price

__all__ = [
    "Asks",
    "CoachUnavailable",
    "Message",
    "Reply",
    "Usage",
    "dollars",
    "load",
    "loaded",
    "price",
]
