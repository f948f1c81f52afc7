"""Mutations of functions: operators by name, and the syntax tree analysis behind them."""

from __future__ import annotations

from ratchet.learn.mutations.growing import OPERATORS, Grown, grow, grow_near
from ratchet.learn.mutations.kinds import Shapes, shapes_of
from ratchet.learn.mutations.mutants import Mutants, mutated
from ratchet.learn.mutations.tree import FunctionTree

__all__ = [
    "OPERATORS",
    "FunctionTree",
    "Grown",
    "Mutants",
    "Shapes",
    "grow",
    "grow_near",
    "mutated",
    "shapes_of",
]
