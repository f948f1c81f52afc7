"""Decisions: whether a candidate is better, at a bounded error rate, with verifiable evidence."""

from ratchet.prove.alpha import level
from ratchet.prove.audit import drawn_pairs, drawn_repetition
from ratchet.prove.comparison import Comparison, fewest_pairs_to_promote
from ratchet.prove.decide import decision
from ratchet.prove.evidence import write_evidence
from ratchet.prove.guardrails import Guardrail
from ratchet.prove.plan import ExperimentPlan, PairedScore
from ratchet.prove.repetitions import (
    PilotTask,
    RepetitionPlan,
    choose_repetitions,
    may_repeat,
)
from ratchet.prove.verification import Verification, verify

__all__ = [
    "Comparison",
    "ExperimentPlan",
    "Guardrail",
    "PairedScore",
    "PilotTask",
    "RepetitionPlan",
    "Verification",
    "choose_repetitions",
    "decision",
    "drawn_pairs",
    "drawn_repetition",
    "fewest_pairs_to_promote",
    "level",
    "may_repeat",
    "verify",
    "write_evidence",
]
