"""Report cards: measure evaluators before they are trusted."""

from ratchet.evaluate.report_card.card import cached_card, make_card, may_decide
from ratchet.evaluate.report_card.cases import Case, make_cases

__all__ = [
    "Case",
    "cached_card",
    "make_card",
    "make_cases",
    "may_decide",
]
