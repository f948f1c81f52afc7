"""An improvement begins when live traces are bad, or get worse."""

from __future__ import annotations

from typing import Any

from ratchet.autopilot.cycle.detection import noticed
from ratchet.autopilot.cycle_sections import AutopilotSection
from ratchet.types import LiveOutcome

POLICY = AutopilotSection(window=200, min_traces=50, max_bad=0.2, low_score=0.5)


def outcomes(*bad: bool, **fields: Any) -> list[LiveOutcome]:
    given = {"score": 1.0, **fields}
    return [
        LiveOutcome(
            trace_id=str(number),
            unit=str(number),
            at=float(number),
            **{**given, "score": 0.5 if is_bad else given["score"]},
        )
        for number, is_bad in enumerate(bad)
    ]


def share(bad: int, all_: int) -> list[bool]:
    """Spread evenly."""
    return [(number * bad) // all_ != ((number + 1) * bad) // all_ for number in range(all_)]


def test_a_share_of_bad_traces_above_the_limit_is_noticed() -> None:
    found = noticed(POLICY, outcomes(*share(22, 100)))
    assert found.startswith("22 of the 100 newest live traces are bad")
    assert noticed(POLICY, outcomes(*share(20, 100))) == ""


def test_failures_count_without_a_score() -> None:
    failed = [
        LiveOutcome(trace_id=str(n), unit=str(n), at=float(n), error=n % 3 == 0) for n in range(300)
    ]
    # Of the others it is not known how they were.
    assert "bad" in noticed(POLICY, failed)


def test_few_traces_prove_nothing() -> None:
    assert noticed(POLICY, outcomes(*[True] * 49)) == ""
    unscored = outcomes(*[False] * 500, score=None)
    assert noticed(POLICY, [*unscored, *outcomes(*[True] * 49)]) == ""


def test_only_the_newest_window_counts() -> None:
    assert noticed(POLICY, outcomes(*[True] * 500, *share(10, 200))) == ""


def test_a_drift_is_noticed_below_the_limit() -> None:
    found = noticed(POLICY, outcomes(*share(1, 100), *share(18, 100)))
    assert found == (
        "Live traces are getting worse: 18% of the newest 100 are bad,"
        " against 1% of the 100 before them."
    )
    assert noticed(POLICY, outcomes(*share(10, 100), *share(15, 100))) == ""
