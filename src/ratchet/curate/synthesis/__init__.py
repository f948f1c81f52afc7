"""Synthesis: tasks made of real ones, from a schema, or by the coach."""

from __future__ import annotations

from ratchet.curate.synthesis.answers import Agreement, CoachSolver, Oracle
from ratchet.curate.synthesis.coached import CoachInputs
from ratchet.curate.synthesis.spending import BoundedCoach
from ratchet.curate.synthesis.synthesize import FREE, MethodName, Synthesis, synthesize

__all__ = [
    "FREE",
    "Agreement",
    "BoundedCoach",
    "CoachInputs",
    "CoachSolver",
    "MethodName",
    "Oracle",
    "Synthesis",
    "synthesize",
]
