"""Models: what a call of one costs."""

from ratchet.llm.prices import Usage, dollars, load, loaded
from ratchet.llm.recorded import price

__all__ = ["Usage", "dollars", "load", "loaded", "price"]
