"""Mutations of functions: operators by name, and the tree analysis that they need."""

from __future__ import annotations

from ratchet.learn.proposers.mutations.constants import Tried
from ratchet.learn.proposers.mutations.growing import OPERATORS, Grown, Operator, grow, grow_near
from ratchet.learn.proposers.mutations.kinds import Shapes, shapes_of
from ratchet.learn.proposers.mutations.splicing import TextChange
from ratchet.learn.proposers.mutations.tree import FunctionTree

__all__ = [
    "OPERATORS",
    "FunctionTree",
    "Grown",
    "Operator",
    "Shapes",
    "TextChange",
    "Tried",
    "grow",
    "grow_near",
    "shapes_of",
]
