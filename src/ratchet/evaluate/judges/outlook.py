"""Counts the stored answers of a judge's models, and those still to be asked for."""

from __future__ import annotations

from ratchet.llm import Reply
from ratchet.types import total_cost


class AnswersOutlook:
    """The answers behind verdicts, counted without asking a model."""

    def __init__(self) -> None:
        self.stored: dict[str, Reply] = {}
        """Stored answers by key."""
        self.missing: set[str] = set()
        """Keys of answers still to be asked for."""

    @property
    def each_usd(self) -> float | None:
        """Mean dollars of a stored answer; None if there is none, or a price is unknown."""
        cost = total_cost(reply.cost for reply in self.stored.values())
        return cost.usd / len(self.stored) if self.stored and cost.usd is not None else None
