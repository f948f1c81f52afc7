"""Evaluation: evaluators, and the scorer that applies them to rollouts."""

from ratchet.evaluate.catalog import BUILT_IN, make_evaluator
from ratchet.evaluate.cost_and_latency import cost, latency
from ratchet.evaluate.evaluator import (
    Evaluator,
    EvaluatorBasis,
    FunctionEvaluator,
    Judgement,
    basis_of,
    evaluator,
)
from ratchet.evaluate.match import contains, exact_match, reciprocal_rank, regex
from ratchet.evaluate.numeric import numeric
from ratchet.evaluate.schema import json_schema
from ratchet.evaluate.scoring import Scorer, ScoreStream
from ratchet.evaluate.sql_equivalence.evaluator import sql

__all__ = [
    "BUILT_IN",
    "Evaluator",
    "EvaluatorBasis",
    "FunctionEvaluator",
    "Judgement",
    "ScoreStream",
    "Scorer",
    "basis_of",
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
    "sql",
]
