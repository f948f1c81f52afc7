"""Evolve: an asynchronous evolutionary search over prompts and code."""

from ratchet.learn.evolve.evolve import Evolve

__all__ = ["Evolve"]
