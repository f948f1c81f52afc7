"""What the loop tells whoever watches it: a terminal, a log, later a dashboard."""

from __future__ import annotations

from ratchet.learn import Finding, Proposal
from ratchet.prove import Comparison
from ratchet.types import Decision, Release, Rollout, Run, Stage


class Watcher:
    """Hears nothing; subclasses override what they want to hear. No method may block or raise."""

    def message(self, text: str) -> None:
        """Something to tell a person."""

    def entered(self, run: Run, stage: Stage, resumed: bool) -> None:
        """The run enters a stage, or goes on in it after an interruption."""

    def expects(self, rollouts: int) -> None:
        """About so many rollouts lie ahead in this stage."""

    def rollout(self, rollout: Rollout) -> None:
        """A rollout ended, or was found ended already."""

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
        """A branch was made."""
