"""What an experiment's guardrails take as measured."""

from __future__ import annotations

import pytest

from ratchet.autopilot.paired_rollouts import _metric
from ratchet.types import Rollout, RolloutStatus, Score


def ended(status: RolloutStatus) -> Rollout:
    return Rollout(id="r", queue="q", candidate_id="", task_id="", input=1, status=status)


@pytest.mark.parametrize(
    ("status", "errors"),
    [
        ("succeeded", 0.0),
        ("failed", 1.0),
        ("timed_out", 1.0),
        ("crashed", 1.0),
        ("inconclusive", None),
        ("cancelled", None),
    ],
)
def test_errors_are_not_measured_where_a_rollout_neither_succeeded_nor_failed(
    status: RolloutStatus, errors: float | None
) -> None:
    assert _metric("errors", ended(status), {}) == errors


def test_a_metric_without_a_value_is_not_measured() -> None:
    unknown = Score(evaluator="cost", version="1", value=None, unit="USD", error="not measured")
    assert _metric("cost", ended("succeeded"), {"cost": unknown}) is None
    assert _metric("cost", ended("succeeded"), {}) is None
