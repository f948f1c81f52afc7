"""Terminal progress of the loop: a heading for each stage, a bar, and a result line.

During learning, the best candidate so far with its interval and the cost are shown under the bar,
and a small tree of the best candidates.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from ratchet._waiting import LongWait
from ratchet.autopilot import Watcher
from ratchet.cli.candidate_tree import CandidateTree, score_text
from ratchet.cli.console import number, one_line, short
from ratchet.cli.errors import TELLER
from ratchet.learn import Finding, Proposal
from ratchet.learn.work import FAILED_STATUSES
from ratchet.prove import Comparison
from ratchet.types import Cost, Decision, Release, Rollout, Run, Stage
from ratchet.types.wording import counted

TITLES: dict[Stage, str] = {
    "baseline": "Baseline: the agent as it is, on the val tasks",
    "learn": "Learn: search for something better, on the train tasks",
    "prove": "Prove: candidate against baseline, on test tasks that learning never saw",
    "ship": "Ship: patch, tests, branch",
}

MAX_CANDIDATES_SHOWN = 6
"""Candidates shown in the live tree, which should not fill the screen."""

MAX_ERROR = 300
"""Maximum length of an error, in characters."""

PLAIN_EVERY_S = 10.0 if TELLER is None else 1.0
"""Seconds between progress lines when the output is not a terminal; fewer if a program reads it."""


class TerminalWatcher(Watcher):
    """Shows the loop on a terminal; elsewhere prints a line every few seconds.

    Args:
        console: Where to print.
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
        )
        self._proposals: list[Proposal] = []
        self._run: Run | None = None
        self._waits = ""
        self._printed: dict[tuple[str, float], float] = {}
        """Seconds that each wait had lasted when last printed."""
        self._live = Live(
            get_renderable=self._view, console=console, transient=True, refresh_per_second=4
        )
        self._bar: TaskID | None = None
        self._seen: set[str] = set()
        self._ended: dict[str, str | None] = {}
        """The stage's rollouts by id, each with its error if it failed."""
        self._expected = 0
        self._note = ""
        self._last_line = time.monotonic()

    def __enter__(self) -> TerminalWatcher:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live.is_started:
            self._live.stop()

    def message(self, text: str) -> None:
        """Print a sentence above the bar."""
        self._console.print(f"  {text}", style="dim", markup=False)

    def waits(self, waits: Sequence[LongWait], now: float) -> None:
        """Show what is awaited under the bar; without a terminal, print it ever more rarely."""
        self._waits = "; ".join(wait.sentence(now) for wait in waits)
        if self._console.is_terminal:
            return
        fresh = {(wait.what, wait.since) for wait in waits}
        self._printed = {
            key: printed_at for key, printed_at in self._printed.items() if key in fresh
        }
        for wait in waits:
            lasted = now - wait.since
            if lasted >= 2 * self._printed.get((wait.what, wait.since), 0.0):
                self._printed[wait.what, wait.since] = lasted
                self._console.print(f"  {wait.sentence(now)}", style="dim", markup=False)

    def entered(self, run: Run, stage: Stage, resumed: bool) -> None:
        """Print the stage's heading."""
        again = " [dim](resumed)[/]" if resumed else ""
        self._console.print(f"[bold]{TITLES[stage]}[/]{again}")
        if self._bar is not None:
            self._progress.remove_task(self._bar)
            self._bar = None
        self._proposals = []
        self._run = run
        self._note = ""

    def expects(self, rollouts: int) -> None:
        """Replace the bar with a bar of this length; indeterminate for 0."""
        if self._bar is not None:
            self._progress.remove_task(self._bar)
        self._seen.clear()
        self._expected = rollouts
        self._bar = self._progress.add_task("rollouts", total=rollouts or None, note="")

    def rollout(self, rollout: Rollout) -> None:
        """Advance the bar."""
        self._ended[rollout.id] = rollout.error if rollout.status in FAILED_STATUSES else None
        self._seen.add(rollout.id)
        if self._bar is not None:
            self._progress.update(self._bar, completed=len(self._seen), note=self._note)
        if not self._console.is_terminal and time.monotonic() - self._last_line > PLAIN_EVERY_S:
            self._last_line = time.monotonic()
            of = f" of {self._expected}" if self._expected else ""
            self._console.print(f"  {len(self._seen)}{of} rollouts  {self._note}", markup=False)

    def baseline(self, value: float, tasks: int) -> None:
        """Print the baseline's mean."""
        self._console.print(
            f"  mean score [bold]{number(value)}[/] over {counted(tasks, 'val task')}"
        )
        self._say_failures()

    def proposal(self, proposal: Proposal) -> None:
        """Update the best candidate and the tree."""
        self._proposals.append(proposal)
        spent = ""
        if proposal.coach_calls:
            spent = f", {counted(proposal.coach_calls, 'coach call')}"
        if proposal.cost != Cost():
            spent += f", {proposal.cost}"
        self._note = f"candidate {proposal.number + 1}, best {number(proposal.best)}{spent}"

    def _say_failures(self) -> None:
        """Print how many of the stage's rollouts failed, and the error of most of them."""
        errors = Counter(error for error in self._ended.values() if error is not None)
        if errors:
            often = ", most often" if len(errors) > 1 else ""
            error = one_line(errors.most_common(1)[0][0] or "without a message", MAX_ERROR)
            rollouts = counted(len(self._ended), "rollout")
            self.message(f"{errors.total()} of {rollouts} failed{often}: {error}")
        self._ended.clear()

    def found(self, finding: Finding) -> None:
        """Print the result of learning."""
        self._say_failures()
        self._console.print(f"  {finding.sentence}", markup=False)
        if finding.best_val > finding.baseline_val:
            self._console.print(
                f"  best candidate [bold]{short(finding.best.id)}[/]: mean score on"
                f" {f'{finding.val_tasks} ' if finding.val_tasks else ''}val tasks"
                f" {number(finding.baseline_val)} → [bold]{number(finding.best_val)}[/]"
            )

    def _view(self) -> RenderableType:
        """The content of the live area."""
        lines: list[RenderableType] = [self._progress]
        if self._waits:
            lines.append(Text(f"  {self._waits}", "yellow"))
        if self._run is None or not self._proposals:
            return Group(*lines)
        lineage = CandidateTree(self._proposals, self._run.baseline_id)
        if lineage.best is not None:
            best, last = lineage.best, self._proposals[-1]
            spent = f"  {last.cost} spent" if last.cost != Cost() else ""
            line = Text("  best so far ")
            line.append(short(best.candidate_id), "bold green")
            line.append(f": {score_text(best)}{spent}")
            lines.append(line)
        lines.append(Padding(lineage.tree(MAX_CANDIDATES_SHOWN, reasons=False), (0, 0, 0, 2)))
        return Group(*lines)

    def pair(self, comparison: Comparison, total: int) -> None:
        """Update the evidence."""
        baseline, candidate = comparison.means
        self._note = (
            f"pair {comparison.scored}: {number(baseline)} → {number(candidate)},"
            f" e-value {comparison.superiority.peak:.3g}"
        )

    def decided(self, decision: Decision, evidence: str) -> None:
        """Print the decision."""
        self._say_failures()
        style = "green" if decision.verdict == "promote" else "yellow"
        self._console.print(f"  {decision.sentence}", style=style, markup=False)

    def released(self, release: Release) -> None:
        """Print where the release is."""
        if release.agent:
            self._console.print(f"  active at the gateway for [bold]{release.agent}[/]")
            return
        self._console.print(f"  branch [bold]{release.branch}[/] at {release.commit[:10]}")
