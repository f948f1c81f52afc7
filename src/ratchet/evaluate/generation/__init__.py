"""Proposes evaluators: from an agent's own outputs, and from a language model that reads them."""

from ratchet.evaluate.generation.asked import propose_by_llm
from ratchet.evaluate.generation.contained import contained_evaluator
from ratchet.evaluate.generation.observed import MIN_EXAMPLES, KnownOutput, propose_from_data
from ratchet.evaluate.generation.proposal import ProposedEvaluator, python_module, toml_tables

__all__ = [
    "MIN_EXAMPLES",
    "KnownOutput",
    "ProposedEvaluator",
    "contained_evaluator",
    "propose_by_llm",
    "propose_from_data",
    "python_module",
    "toml_tables",
]
