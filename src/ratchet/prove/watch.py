"""The watch after a release: an alarm when live scores, errors, latency or cost get worse."""

from __future__ import annotations

import msgspec

from ratchet.prove.live_metrics import SCORE, check_metric
from ratchet.prove.plan_checks import check_counts, check_numbers
from ratchet.types import InputError


class WatchedMetric(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of live outcomes and the mean that counts as unchanged.

    Raises:
        InputError: The metric is unknown, or a number is out of range.
    """

    metric: str = SCORE
    """`score`, `errors`, `latency` or `cost`."""
    expected: float
    """Mean when nothing has changed, in the metric's unit, estimated with caution: a lower bound of
    the score, an upper bound of the others, such as the end of an interval."""
    tolerance: float = 0.0
    """A mean that is worse by up to this raises no alarm, in the metric's unit."""
    ceiling: float = 1.0
    """Values above it count as this, in the metric's unit; 1 for score and errors."""

    def __post_init__(self) -> None:
        check_metric(self.metric)
        check_numbers(self, 1e-12, 1e12, "ceiling")
        check_numbers(self, 0.0, 1e12, "expected", "tolerance")
        if not 0.0 < self.worst_mean < 1.0:
            raise InputError(
                f"The watch of {self.metric!r} expects {self.expected:g} with a tolerance of"
                f" {self.tolerance:g}, which leaves nothing between 0 and {self.ceiling:g} that"
                " could be worse.",
                hint="Lower the tolerance, or raise the ceiling.",
            )

    @property
    def worst_mean(self) -> float:
        """The worst mean that raises no alarm, on the scale where 1 is best and 0 is worst."""
        share = self.expected / self.ceiling
        good = share if self.metric == SCORE else 1.0 - share
        return good - self.tolerance / self.ceiling


class WatchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a watch, fixed before its first outcome.

    Raises:
        InputError: A value is out of range, or there is nothing to watch.
    """

    metrics: tuple[WatchedMetric, ...]
    alpha: float = 0.05
    """Probability of a false alarm within `outcomes`, over all metrics together."""
    outcomes: int = 10_000
    """Outcomes of the release after which the watch ends."""

    def __post_init__(self) -> None:
        check_numbers(self, 1e-12, 0.5, "alpha")
        check_counts(self, 1, 10**9, "outcomes")
        names = [each.metric for each in self.metrics]
        if not names:
            raise InputError("WatchPlan: there is no metric to watch.")
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InputError(f"WatchPlan: metric {twice[0]!r} is given twice.")
