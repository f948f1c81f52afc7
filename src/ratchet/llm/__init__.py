"""Models: what a call of one costs."""

from ratchet.llm.prices import Usage, dollars, load, loaded

__all__ = ["Usage", "dollars", "load", "loaded"]
