"""Mutations of functions: operators by name, and what they need to know of a tree."""

from __future__ import annotations

from ratchet.learn.proposers.mutations.growing import OPERATORS, Grown, Operator, grow
from ratchet.learn.proposers.mutations.kinds import Shapes, shapes_of
from ratchet.learn.proposers.mutations.splicing import Change
from ratchet.learn.proposers.mutations.tree import Tree

__all__ = ["OPERATORS", "Change", "Grown", "Operator", "Shapes", "Tree", "grow", "shapes_of"]
