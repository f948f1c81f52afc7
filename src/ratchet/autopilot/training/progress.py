"""Progress of a fit, printed to standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from ratchet.autopilot.watcher import Watcher
from ratchet.learn import Finding, Proposal
from ratchet.types import Rollout
from ratchet.types.wording import counted

PRINT_INTERVAL_S = 5.0
"""Interval of the printed rollout count, in seconds."""


class StderrProgress(Watcher):
    """Prints each new best candidate, and the rollout count at intervals.

    Args:
        clock: Returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._printed_at = clock()
        self._seen: set[str] = set()
        self._best = float("-inf")

    def rollout(self, rollout: Rollout) -> None:
        """Count the rollout."""
        self._seen.add(rollout.id)
        if self._clock() - self._printed_at >= PRINT_INTERVAL_S:
            self._print(counted(len(self._seen), "rollout"))

    def proposal(self, proposal: Proposal) -> None:
        """Print the proposal if it is the best so far."""
        if proposal.best > self._best:
            self._best = proposal.best
            self._print(
                f"candidate {proposal.number}: mean reward {proposal.value:.3f} on"
                f" {counted(proposal.tasks, 'task')}, best so far {proposal.best:.3f};"
                f" {counted(proposal.rollouts, 'rollout')}, {proposal.cost}"
            )

    def message(self, text: str) -> None:
        """Print the message."""
        self._print(text)

    def found(self, finding: Finding) -> None:
        """Print the result."""
        self._print(
            f"{finding.sentence} Mean reward on val:"
            f" {finding.baseline_val:.3f} → {finding.best_val:.3f}"
        )

    def _print(self, text: str) -> None:
        self._printed_at = self._clock()
        print(f"ratchet: {text}", file=sys.stderr, flush=True)
