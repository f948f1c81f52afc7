"""Mutations of functions: operators by name, and what they need to know of a tree."""

from __future__ import annotations

from ratchet.learn.proposers.mutations.growing import OPERATORS, Grown, Operator, grow
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
    "grow",
    "shapes_of",
]
