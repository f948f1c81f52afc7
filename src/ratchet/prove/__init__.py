"""Decisions: is the candidate better, at what risk of error, and who can check it."""

from ratchet.prove.alpha import level
from ratchet.prove.comparison import Comparison
from ratchet.prove.decide import decision
from ratchet.prove.evidence import write_evidence
from ratchet.prove.guardrails import Guardrail
from ratchet.prove.plan import PairedScore, Plan
from ratchet.prove.reach import pairs_at_best
from ratchet.prove.verification import Verification, verify

__all__ = [
    "Comparison",
    "Guardrail",
    "PairedScore",
    "Plan",
    "Verification",
    "decision",
    "level",
    "pairs_at_best",
    "verify",
    "write_evidence",
]
