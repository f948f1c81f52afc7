"""A dry run of learning, so that an algorithm refuses its inputs before anything is spent.

Algorithms check at their start what they cannot work with: no prompt, no coach, a budget too small
for one round. In a real run the baseline has been measured and the coach checked by then. So the
algorithm is started once before that, in a lab that stops it at the first operation that would cost
something.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any, NoReturn

from ratchet.learn import Algorithm, Budget, Evaluation, Lab, Proposal
from ratchet.learn.lab_coach import LabCoach
from ratchet.learn.run_journal import PartJournal
from ratchet.types import Candidate, RatchetError, Span, Task

TIMEOUT_S = 20.0
"""Maximum duration of a dry run, in seconds; exceeding it is not a failure."""


class _WouldSpend(RatchetError):
    """The algorithm is about to spend: it refuses nothing."""


class _NoJournal(PartJournal):
    """A journal that stores nothing."""

    def append(self, key: str, body: Any) -> Any:
        return body


class _DryRunCoach(LabCoach):
    """A coach whose first call ends the dry run."""

    def __init__(self, coach: LabCoach, end: Callable[[], NoReturn]) -> None:
        self.__dict__.update(coach.__dict__)
        self._end = end

    async def ask(self, *_: Any, **__: Any) -> NoReturn:
        self._end()


class DryRunLab(Lab):
    """A lab that runs nothing, calls no model and stores nothing."""

    touched = False
    """Whether an operation was requested that would cost something."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._journal = _NoJournal(self._journal.run)
        self.coach = _DryRunCoach(self.coach, self._end)

    async def evaluate(
        self,
        candidate: Candidate,
        tasks: Sequence[Task],
        *,
        repetition: int = 0,
        training: str = "",
    ) -> list[Evaluation]:
        """End the dry run."""
        self._end()

    async def check(self, candidate: Candidate) -> str:
        """End the dry run: a candidate exists and would run."""
        self._end()

    async def test(self, candidate: Candidate) -> str:
        """End the dry run: tests would take too long."""
        self._end()

    async def spans(self, evaluation: Evaluation) -> list[Span]:
        """No spans: nothing has run."""
        return []

    def judged(self, proposal: Proposal) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""

    def may_continue(self, step: str) -> bool:
        """Always true: no time passes."""
        return True

    def part(
        self,
        name: str,
        *,
        baseline: Candidate | None = None,
        budget: Budget | None = None,
        only: Collection[str] | None = None,
        train: Sequence[Task] | None = None,
        val: Sequence[Task] | None = None,
        is_last: bool = True,
    ) -> Lab:
        """End the dry run: algorithms check the budgets of their parts themselves."""
        self._end()

    def _end(self) -> NoReturn:
        self.touched = True
        raise _WouldSpend("This was a dry run.")


class NoRunner:
    """A runner for dry runs, which runs nothing."""

    async def run(self, *_: Any, **__: Any) -> NoReturn:
        """Never called."""
        raise NotImplementedError


async def dry_run(algorithm: Algorithm, lab: DryRunLab) -> None:
    """Raise what an algorithm refuses to work with.

    Args:
        algorithm: A separate instance of the algorithm.
        lab: The dry-run form of the lab that it will work in.

    Raises:
        RatchetError: The algorithm raised it before spending anything.
    """
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await algorithm.learn(lab)
    except RatchetError:
        if not lab.touched:
            raise
    except Exception:  # noqa: S110 - the dry run is over; a real fault shows in the real run
        pass
