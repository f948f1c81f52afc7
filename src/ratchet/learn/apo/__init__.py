"""APO: automatic prompt optimisation with textual gradients and an asynchronous beam."""

from ratchet.learn.apo.apo import APO

__all__ = ["APO"]
