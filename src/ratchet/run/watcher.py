"""Who watches a runner at work, such as a terminal."""

from __future__ import annotations

from ratchet.types import Outcome, RolloutStatus, StoreError


class RunnerWatcher:
    """Hears what a runner does; this one does nothing about it."""

    def claimed(self, number: int) -> None:
        """So many rollouts were taken."""

    def ended(self, outcome: Outcome, status: RolloutStatus | None) -> None:
        """An attempt ended and was reported.

        Args:
            outcome: How it ended.
            status: The rollout's status now; None when the report was refused, since the rollout
                was cancelled or is another runner's.
        """

    def lost(self, number: int) -> None:
        """So many attempts were stopped: cancelled, or their leases are another runner's."""

    def away(self, error: StoreError) -> None:
        """The store cannot be reached; said once until it is back."""

    def back(self, after_s: float) -> None:
        """The store is back, after so many seconds."""
