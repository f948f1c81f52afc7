"""Judges: language models that score rollouts."""

from ratchet.evaluate.judges.evaluator import Alignment, JudgeEvaluator, judge
from ratchet.evaluate.judges.judge import Judge, JudgeSpec
from ratchet.evaluate.judges.material import Passage, condensed, material
from ratchet.evaluate.judges.prompt import Criterion, LabelledExample

__all__ = [
    "Alignment",
    "Criterion",
    "Judge",
    "JudgeEvaluator",
    "JudgeSpec",
    "LabelledExample",
    "Passage",
    "condensed",
    "judge",
    "material",
]
