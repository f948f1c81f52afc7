"""Decisions: whether a candidate is better, at a bounded error rate, with verifiable evidence."""

from ratchet.prove.alpha import level
from ratchet.prove.audit import drawn_pairs, drawn_repetition
from ratchet.prove.canary import CanaryPlan, CanaryTest
from ratchet.prove.comparison import Comparison, fewest_pairs_to_promote
from ratchet.prove.decide import decision
from ratchet.prove.evidence import write_evidence
from ratchet.prove.feedback import FeedbackRule
from ratchet.prove.guardrails import Guardrail
from ratchet.prove.live_metrics import LiveGuardrail
from ratchet.prove.live_state import load_stage, save_stage
from ratchet.prove.plan import ExperimentPlan, PairedScore
from ratchet.prove.repetitions import (
    PilotTask,
    RepetitionPlan,
    choose_repetitions,
    may_repeat,
)
from ratchet.prove.shadow import ShadowPair, ShadowPlan, ShadowTest
from ratchet.prove.stage_evidence import write_stage_evidence
from ratchet.prove.verification import Verification, verify
from ratchet.prove.watch import WatchedMetric, WatchPlan, WatchTest, expected_mean

__all__ = [
    "CanaryPlan",
    "CanaryTest",
    "Comparison",
    "ExperimentPlan",
    "FeedbackRule",
    "Guardrail",
    "LiveGuardrail",
    "PairedScore",
    "PilotTask",
    "RepetitionPlan",
    "ShadowPair",
    "ShadowPlan",
    "ShadowTest",
    "Verification",
    "WatchPlan",
    "WatchTest",
    "WatchedMetric",
    "choose_repetitions",
    "decision",
    "drawn_pairs",
    "drawn_repetition",
    "expected_mean",
    "fewest_pairs_to_promote",
    "level",
    "load_stage",
    "may_repeat",
    "save_stage",
    "verify",
    "write_evidence",
    "write_stage_evidence",
]
