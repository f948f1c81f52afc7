"""Ratchet's own model calls in a run and their cost, from the run's journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ratchet.types import Cost, total_cost

JUDGE_CALL = "judge-call/"
"""Key prefix of a judge's calls in a run's journal."""


class CallCosts(msgspec.Struct, frozen=True, kw_only=True):
    """Ratchet's own model calls in a run, and their cost."""

    coach_calls: int = 0
    judge_calls: int = 0
    of_coach: Cost = Cost()
    of_judges: Cost = Cost()

    @property
    def cost(self) -> Cost:
        """Total cost of the calls."""
        return total_cost([self.of_coach, self.of_judges])


def call_costs(entries: Sequence[tuple[str, Any]]) -> CallCosts:
    """Cost of a run's model calls, from its journal."""
    coach = [body for key, body in entries if key.startswith("coach/")]
    checks = [reply for key, body in entries if key.startswith("coach-check/") for reply in body]
    judges = [body for key, body in entries if key.startswith(JUDGE_CALL)]
    return CallCosts(
        coach_calls=len(coach),
        judge_calls=sum(body["requests"] for body in judges),
        of_coach=total_cost(Cost.of(call["cost_usd"], call["model"]) for call in (*coach, *checks)),
        of_judges=total_cost(Cost.of(call["cost_usd"], call["model"]) for call in judges),
    )
