"""The evaluator of questions with several accepted queries."""

from __future__ import annotations

from typing import Any

from data import DATASETS, PublicTask

import ratchet


@ratchet.evaluator
def accepted(output: str, expected: str, metadata: dict[str, Any]) -> ratchet.Judgement:
    """1 where the query returns the rows of an accepted one."""
    scored = DATASETS["sql_eval"].score(output, PublicTask("", "", expected, metadata))
    return ratchet.Judgement(scored.value, scored.why)
