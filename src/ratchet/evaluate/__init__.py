"""Scores: evaluators and the scorer that applies them."""

from ratchet.evaluate.catalog import BUILT_IN, make_evaluator
from ratchet.evaluate.evaluator import Evaluator, FunctionEvaluator, Judgement, evaluator
from ratchet.evaluate.match import contains, exact_match, regex
from ratchet.evaluate.measure import cost, latency
from ratchet.evaluate.numeric import numeric
from ratchet.evaluate.ranking import reciprocal_rank
from ratchet.evaluate.schema import json_schema
from ratchet.evaluate.scoring import Scorer
from ratchet.evaluate.stream import ScoreStream

__all__ = [
    "BUILT_IN",
    "Evaluator",
    "FunctionEvaluator",
    "Judgement",
    "ScoreStream",
    "Scorer",
    "contains",
    "cost",
    "evaluator",
    "exact_match",
    "json_schema",
    "latency",
    "make_evaluator",
    "numeric",
    "reciprocal_rank",
    "regex",
]
