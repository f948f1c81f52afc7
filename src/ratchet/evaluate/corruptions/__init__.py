"""Damage, harmless edits and attacks applied to real outputs, to measure evaluators."""

from ratchet.evaluate.corruptions.attacks import INJECTIONS, PADDINGS
from ratchet.evaluate.corruptions.corruption import Change, Changed, Material, made
from ratchet.evaluate.corruptions.damage import ALWAYS_WRONG, DAMAGES
from ratchet.evaluate.corruptions.harmless import FORM_ONLY, HARMLESS_EDITS
from ratchet.evaluate.corruptions.oracle import expected_output, is_identical, is_right, same_query
from ratchet.evaluate.corruptions.steps import STEP_DAMAGES
from ratchet.evaluate.corruptions.unusable import UNUSABLE

__all__ = [
    "ALWAYS_WRONG",
    "DAMAGES",
    "FORM_ONLY",
    "HARMLESS_EDITS",
    "INJECTIONS",
    "PADDINGS",
    "STEP_DAMAGES",
    "UNUSABLE",
    "Change",
    "Changed",
    "Material",
    "expected_output",
    "is_identical",
    "is_right",
    "made",
    "same_query",
]
