"""What `ratchet runner` says while it works, and its figures at the end."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from rich.console import Console

from ratchet.run.watching import RunnerWatcher
from ratchet.types import Outcome, RolloutStatus, StoreError

EVERY_S = 10.0
"""How often figures are printed, when they have changed."""


class RunnerProgress(RunnerWatcher):
    """A line now and then, and one whenever something happens that people should know.

    Args:
        console: Where to.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begun = time.monotonic()
        self._told_at = self._begun
        self._told = ""
        self._claimed = 0
        self._lost = 0
        self._ended: Counter[str] = Counter()
        self._first_failure = True

    def say(self, text: str, style: str = "") -> None:
        """Print a sentence."""
        # Whole lines: logs are read line by line.
        self._console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

    def claimed(self, number: int) -> None:
        """Count."""
        self._claimed += number
        self._now_and_then()

    def ended(self, outcome: Outcome, status: RolloutStatus | None) -> None:
        """Count; the first failure is told, so that nobody waits for a thousand of them."""
        self._ended["refused" if status is None else outcome.status] += 1
        if self._first_failure and outcome.status in ("failed", "crashed", "timed_out"):
            self._first_failure = False
            error = " ".join(outcome.error.split())[:500]
            self.say(f"Rollout {outcome.rollout_id} {outcome.status}: {error}", "yellow")
        self._now_and_then()

    def lost(self, number: int) -> None:
        """Tell."""
        self._lost += number
        self.say(f"{number} stopped: cancelled, or claimed by another runner meanwhile.", "yellow")

    def away(self, error: StoreError) -> None:
        """Tell."""
        self.say(
            f"{error.message} What runs goes on and is reported later; trying again until then.",
            "yellow",
        )

    def back(self, after_s: float) -> None:
        """Tell."""
        self.say(f"The server is back, after {after_s:.0f} s.")

    def figures(self) -> dict[str, Any]:
        """Counts since the beginning."""
        ended = sum(self._ended.values())
        return {
            "claimed": self._claimed,
            "succeeded": self._ended["succeeded"],
            "failed": self._ended["failed"],
            "timed_out": self._ended["timed_out"],
            "crashed": self._ended["crashed"],
            "inconclusive": self._ended["inconclusive"],
            "refused": self._ended["refused"],
            "lost": self._lost,
            "unfinished": max(0, self._claimed - ended - self._lost),
            "seconds": round(time.monotonic() - self._begun, 3),
        }

    def summary(self, unfinished: str) -> str:
        """The counts in words.

        Args:
            unfinished: What those are that were claimed and have not ended.
        """
        figures = self.figures()
        parts = [f"{figures['claimed']} claimed", f"{figures['succeeded']} succeeded"]
        named = ("failed", "timed_out", "crashed", "inconclusive", "refused", "lost")
        parts += [f"{figures[name]} {name.replace('_', ' ')}" for name in named if figures[name]]
        if figures["unfinished"]:
            parts.append(f"{figures['unfinished']} {unfinished}")
        return ", ".join(parts)

    def _now_and_then(self) -> None:
        now = time.monotonic()
        if now - self._told_at < EVERY_S:
            return
        summary = self.summary("under way")
        if summary != self._told:
            self._told_at, self._told = now, summary
            self.say(f"  {summary}", "dim")
