"""Judges: language models that score rollouts."""

from ratchet.evaluate.judges.evaluator import Alignment, JudgeEvaluator, judge
from ratchet.evaluate.judges.judge import Judge, JudgeSpec, Unscored
from ratchet.evaluate.judges.material import Section, condensed, material
from ratchet.evaluate.judges.prompt import Criterion, Example

__all__ = [
    "Alignment",
    "Criterion",
    "Example",
    "Judge",
    "JudgeEvaluator",
    "JudgeSpec",
    "Section",
    "Unscored",
    "condensed",
    "judge",
    "material",
]
