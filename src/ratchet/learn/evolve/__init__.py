"""Evolve: a search over functions by mutation and a coach's rewrites, and over prompts."""

from ratchet.learn.evolve.evolve import Evolve

__all__ = ["Evolve"]
