"""Statistics that several rooms decide by."""

from ratchet.stats.eprocess import EProcess

__all__ = ["EProcess"]
