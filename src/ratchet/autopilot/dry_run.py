"""A rehearsal of learning: what an algorithm refuses, it refuses before anything is spent.

An algorithm says at its beginning what it cannot work with: no prompt, no coach, a budget that does
not reach for one round. By then the baseline has run, and the coach has been asked whether it is
there. So the algorithm is begun once before that, in a lab where the first thing that would cost
something ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Mapping, Sequence
from typing import Any, NoReturn

from ratchet.learn import Algorithm, Budget, Evaluation, Lab, Proposal
from ratchet.types import Candidate, RatchetError, Span, Task

TIMEOUT_S = 20.0
"""How long a rehearsal may take: it is no reason to fail."""


class _WouldSpend(RatchetError):
    """The algorithm would begin to spend: it refuses nothing."""


class DryRunLab(Lab):
    """A lab in which nothing runs, nobody is asked, and nothing is kept."""

    touched = False
    """Whether anything was asked for that would cost something."""

    async def evaluate(
        self, candidate: Candidate, tasks: Sequence[Task], *, repetition: int = 0
    ) -> list[Evaluation]:
        """Ends the rehearsal."""
        self._end()

    async def coach(self, *_: Any, **__: Any) -> NoReturn:
        """Ends the rehearsal."""
        self._end()

    async def check(self, candidate: Candidate) -> str:
        """Ends the rehearsal: there is a candidate, which is to run."""
        self._end()

    async def test(self, candidate: Candidate) -> str:
        """Ends the rehearsal: tests take their time."""
        self._end()

    async def spans(self, evaluation: Evaluation) -> list[Span]:
        """Nothing has run."""
        return []

    async def first(self, event: str, pending: Mapping[str, asyncio.Future[Any]]) -> str:
        """What ends first; it is not kept."""
        done, _ = await asyncio.wait(pending.values(), return_when=asyncio.FIRST_COMPLETED)
        return next(name for name, future in pending.items() if future in done)

    def judged(self, proposal: Proposal) -> None:
        """Nobody is told."""

    def note(self, text: str) -> None:
        """Nobody is told."""

    def may_continue(self, step: str) -> bool:
        """Always: no time goes by."""
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
    ) -> Lab:
        """Ends the rehearsal: what parts of a budget reach for, the algorithm sees to."""
        self._end()

    def _append(self, key: str, body: Any) -> Any:
        return body

    def _end(self) -> NoReturn:
        self.touched = True
        raise _WouldSpend("This was a rehearsal.")


class NoRunner:
    """Runs nothing: who stands for the runner of a rehearsal."""

    async def run(self, *_: Any, **__: Any) -> NoReturn:
        """It is never asked."""
        raise NotImplementedError


async def dry_run(algorithm: Algorithm, lab: DryRunLab) -> None:
    """Raise what an algorithm refuses to work with.

    Args:
        algorithm: An algorithm of its own, made for the rehearsal.
        lab: The lab that it will work in, as a rehearsal.

    Raises:
        RatchetError: The algorithm said so, before it asked for anything.
    """
    learning: Awaitable[Any] = algorithm.learn(lab)
    try:
        await asyncio.wait_for(learning, TIMEOUT_S)
    except RatchetError:
        if not lab.touched:
            raise
    except Exception:  # noqa: S110 - the rehearsal is over; what is wrong shows when it is meant
        pass
