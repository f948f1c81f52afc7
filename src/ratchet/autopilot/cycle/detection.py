"""Detection: whether the newest live outcomes call for an improvement."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ratchet.autopilot.cycle_sections import AutopilotSection
from ratchet.types import LiveOutcome

DRIFT_Z = 3.0
"""Difference between two windows' shares, in standard errors, that counts as a drift."""


def is_bad(outcome: LiveOutcome, low_score: float) -> bool:
    """Whether a live trace failed, or has a low score."""
    return outcome.error or (outcome.score is not None and outcome.score <= low_score)


def noticed(policy: AutopilotSection, outcomes: Sequence[LiveOutcome]) -> str:
    """Why an improvement is needed, in one sentence; empty if it is not.

    Two rules: the share of bad traces in the window is above `max_bad`; or the newer half of the
    window is worse than the older one, by a two-proportion z-test at `DRIFT_Z` standard errors. A
    false start costs budget; it ships nothing.

    Args:
        policy: Thresholds.
        outcomes: Oldest first.
    """
    judged = [o for o in outcomes if o.error or o.score is not None][-policy.window :]
    if len(judged) < policy.min_traces:
        return ""
    bad = [is_bad(outcome, policy.low_score) for outcome in judged]
    share = sum(bad) / len(bad)
    if share > policy.max_bad:
        return (
            f"{sum(bad)} of the {len(bad)} newest live traces are bad: they failed, or scored at"
            f" most {policy.low_score:g}. That is more than max_bad = {policy.max_bad:g}."
        )
    middle = len(bad) // 2
    older, newer = bad[:middle], bad[middle:]
    if middle < policy.min_traces:
        return ""
    before, after = sum(older) / len(older), sum(newer) / len(newer)
    error = math.sqrt(share * (1 - share) * (1 / len(older) + 1 / len(newer)))
    if after - before > DRIFT_Z * error:
        return (
            f"Live traces are getting worse: {after:.0%} of the newest {len(newer)} are bad,"
            f" against {before:.0%} of the {len(older)} before them."
        )
    return ""
