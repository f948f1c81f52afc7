"""Progress events of the loop, for a terminal or a log."""

from __future__ import annotations

from collections.abc import Sequence

from ratchet._waiting import LongWait
from ratchet.learn import Finding, Proposal
from ratchet.learn.lab import LabListener
from ratchet.prove import Comparison
from ratchet.types import Decision, Release, Rollout, Run, Stage


class Watcher(LabListener):
    """Ignores all events; subclasses override methods. No method may block or raise."""

    def message(self, text: str) -> None:
        """A message for the user."""

    def waits(self, waits: Sequence[LongWait], now: float) -> None:
        """Long waits, the longest first; called about twice a second.

        Args:
            waits: The waits; empty while work goes on.
            now: Unix seconds.
        """

    def entered(self, run: Run, stage: Stage, resumed: bool) -> None:
        """The run enters a stage, or resumes it."""

    def expects(self, rollouts: int) -> None:
        """About this many rollouts are expected in this stage."""

    def rollout(self, rollout: Rollout) -> None:
        """A rollout ended, or was found cached."""

    def baseline(self, value: float, tasks: int) -> None:
        """The baseline's mean objective on val."""

    def proposal(self, proposal: Proposal) -> None:
        """A candidate was judged."""

    def found(self, finding: Finding) -> None:
        """Learning has ended."""

    def pair(self, comparison: Comparison, total: int) -> None:
        """A pair of the experiment was observed."""

    def decided(self, decision: Decision, evidence: str) -> None:
        """The experiment has ended."""

    def released(self, release: Release) -> None:
        """A release branch was created."""
