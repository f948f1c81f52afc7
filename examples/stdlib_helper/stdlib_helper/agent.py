"""The agent: it retrieves names that may answer, and lets a model choose when there is one."""

from __future__ import annotations

import ratchet

from .choice import choose, model_name
from .scoring import current_settings, rank, scorer

ANSWERS = 10


@ratchet.tool
def search(question: str) -> list[str]:
    """Ranks the names of the standard library for a question, best first."""
    settings = current_settings()
    candidates = scorer(settings).candidates(question)
    ranked = rank(candidates, settings.exact_name_bonus, settings.coverage_bonus)
    return [candidate["name"] for candidate in ranked[:ANSWERS]]


@ratchet.agent
def answer(question: str) -> list[str]:
    """Names up to ten functions or classes that do what the question asks, best first."""
    names = search(question)
    model = model_name()
    return choose(question, names, model) if model and names else names
