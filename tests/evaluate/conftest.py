"""Rollouts to judge."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ratchet.evaluate import Evaluator
from ratchet.store import Store
from ratchet.types import Rollout, RolloutStatus, Score


def ended(
    output: Any = None,
    expected: Any = None,
    *,
    id: str = "r",
    status: RolloutStatus = "succeeded",
    **fields: Any,
) -> Rollout:
    """A rollout that has ended."""
    given: dict[str, Any] = {
        "task_id": "t",
        "duration_s": 0.5,
        "input": "q",
        "ended_at": 2.0,
        "started_at": 1.0,
    }
    return Rollout(
        id=id,
        queue="q",
        candidate_id="c",
        status=status,
        output=output,
        expected=expected,
        **{**given, **fields},
    )


def verdict(evaluator: Evaluator, rollout: Rollout) -> Score:
    """What an evaluator says of a rollout without spans."""
    return asyncio.run(evaluator.score(rollout, lambda _: []))


@pytest.fixture
def sqlite_store(sqlite_url: str) -> Any:
    """An empty store in a SQLite file."""
    with Store.open(sqlite_url) as store:
        yield store
