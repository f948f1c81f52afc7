"""Statistics shared by several packages."""

from ratchet.stats.eprocess import EProcess

__all__ = ["EProcess"]
