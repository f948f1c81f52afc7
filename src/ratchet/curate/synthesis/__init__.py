"""Synthesis: tasks made from real ones, from a schema, or by the coach."""

from __future__ import annotations

from ratchet.curate.synthesis.answers import CoachSolver, Oracle, SolverAgreement
from ratchet.curate.synthesis.coached import CoachInputs
from ratchet.curate.synthesis.spending import BoundedCoach
from ratchet.curate.synthesis.synthesize import FREE, MethodName, Synthesis, synthesize

__all__ = [
    "FREE",
    "BoundedCoach",
    "CoachInputs",
    "CoachSolver",
    "MethodName",
    "Oracle",
    "SolverAgreement",
    "Synthesis",
    "synthesize",
]
