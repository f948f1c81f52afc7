"""The terminal's view of the loop: a heading for each stage, a bar, and a line at its end."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ratchet.autopilot import Watcher
from ratchet.cli.console import number, short
from ratchet.learn import Finding, Proposal
from ratchet.prove import Comparison
from ratchet.types import Decision, Release, Rollout, Run, Stage

TITLES: dict[Stage, str] = {
    "baseline": "Baseline: the agent as it is, on the val tasks",
    "learn": "Learn: search for something better, on the train tasks",
    "prove": "Prove: candidate against baseline, on test tasks that learning never saw",
    "ship": "Ship: patch, tests, branch",
}

PLAIN_EVERY_S = 10.0
"""How often a log that is no terminal hears of progress."""


class TerminalWatcher(Watcher):
    """Shows the loop on a terminal; on anything else, a line now and then.

    Args:
        console: Where to.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("  {task.description}"),
            BarColumn(bar_width=28),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("[dim]{task.fields[note]}"),
            console=console,
            transient=True,
        )
        self._bar: TaskID | None = None
        self._seen: set[str] = set()
        self._expected = 0
        self._note = ""
        self._last_line = time.monotonic()

    def __enter__(self) -> TerminalWatcher:
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._progress.live.is_started:
            self._progress.stop()

    def said(self, text: str) -> None:
        """Print a sentence above the bar."""
        self._console.print(f"  {text}", style="dim", markup=False)

    def entered(self, run: Run, stage: Stage, resumed: bool) -> None:
        """A heading for each stage."""
        again = " [dim](going on where it stood)[/]" if resumed else ""
        self._console.print(f"[bold]{TITLES[stage]}[/]{again}")
        if self._bar is not None:
            self._progress.remove_task(self._bar)
            self._bar = None
        self._seen.clear()
        self._note = ""

    def expects(self, rollouts: int) -> None:
        """A bar of that length; of none when nobody knows."""
        self._expected = rollouts
        self._bar = self._progress.add_task("rollouts", total=rollouts or None, note="")

    def rollout(self, rollout: Rollout) -> None:
        """One step of the bar."""
        self._seen.add(rollout.id)
        if self._bar is not None:
            self._progress.update(self._bar, completed=len(self._seen), note=self._note)
        if not self._console.is_terminal and time.monotonic() - self._last_line > PLAIN_EVERY_S:
            self._last_line = time.monotonic()
            of = f" of {self._expected}" if self._expected else ""
            self._console.print(f"  {len(self._seen)}{of} rollouts  {self._note}", markup=False)

    def baseline(self, value: float, tasks: int) -> None:
        """The baseline's mean."""
        self._console.print(f"  mean score [bold]{number(value)}[/] over {tasks} val tasks")

    def proposal(self, proposal: Proposal) -> None:
        """The best so far."""
        self._note = f"trial {proposal.number + 1}, best {number(proposal.best)}"

    def found(self, finding: Finding) -> None:
        """What learning came to."""
        self._console.print(f"  {finding.sentence}", markup=False)
        if finding.best_val > finding.baseline_val:
            self._console.print(
                f"  best candidate [bold]{short(finding.best.id)}[/]: mean score on val"
                f" {number(finding.baseline_val)} → [bold]{number(finding.best_val)}[/]"
            )

    def pair(self, comparison: Comparison, total: int) -> None:
        """Evidence as it gathers."""
        baseline, candidate = comparison.means
        self._note = (
            f"pair {comparison.scored}: {number(baseline)} → {number(candidate)},"
            f" e-value {comparison.superiority.peak:.3g}"
        )

    def decided(self, decision: Decision, evidence: str) -> None:
        """The decision in words."""
        style = "green" if decision.verdict == "promote" else "yellow"
        self._console.print(f"  {decision.sentence}", style=style, markup=False)

    def released(self, release: Release) -> None:
        """The branch."""
        self._console.print(f"  branch [bold]{release.branch}[/] at {release.commit[:10]}")
