"""Evaluation: evaluators, and the scorer that applies them to rollouts."""

from ratchet.evaluate.catalog import BUILT_IN, make_evaluator
from ratchet.evaluate.code_tests import code_tests
from ratchet.evaluate.cost_and_latency import cost, latency
from ratchet.evaluate.error_rate import error_rate
from ratchet.evaluate.failures import broken, is_failure
from ratchet.evaluate.groundedness import groundedness
from ratchet.evaluate.json_match import json_match
from ratchet.evaluate.language import language
from ratchet.evaluate.length import length
from ratchet.evaluate.match import contains, exact_match, reciprocal_rank, regex
from ratchet.evaluate.numeric import numeric
from ratchet.evaluate.overlap import overlap
from ratchet.evaluate.pii_leak import pii_leak
from ratchet.evaluate.refusal import refusal
from ratchet.evaluate.schema import json_schema
from ratchet.evaluate.scoring import Scorer, ScoreStream
from ratchet.evaluate.sql_equivalence.evaluator import sql
from ratchet.evaluate.tokens import tokens
from ratchet.evaluate.tool_calls import tool_calls
from ratchet.evaluate.trajectory import trajectory
from ratchet.worker.evaluator import (
    Evaluator,
    EvaluatorBasis,
    FunctionEvaluator,
    Judgement,
    Unscored,
    basis_of,
    evaluator,
)

__all__ = [
    "BUILT_IN",
    "Evaluator",
    "EvaluatorBasis",
    "FunctionEvaluator",
    "Judgement",
    "ScoreStream",
    "Scorer",
    "Unscored",
    "basis_of",
    "broken",
    "code_tests",
    "contains",
    "cost",
    "error_rate",
    "evaluator",
    "exact_match",
    "groundedness",
    "is_failure",
    "json_match",
    "json_schema",
    "language",
    "latency",
    "length",
    "make_evaluator",
    "numeric",
    "overlap",
    "pii_leak",
    "reciprocal_rank",
    "refusal",
    "regex",
    "sql",
    "tokens",
    "tool_calls",
    "trajectory",
]
