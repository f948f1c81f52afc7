"""APO: automatic prompt optimisation by a coach's rewrites."""

from ratchet.learn.apo.apo import APO

__all__ = ["APO"]
