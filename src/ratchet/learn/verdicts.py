"""Verdicts on candidates, in two stages: each is found once, and kept in the journal.

What takes milliseconds is asked before a candidate costs a rollout. What takes seconds (a type
checker, the repository's own tests) is asked of those that have shown something on a few tasks,
before they cost many, and before one is accepted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

from ratchet.store import Store
from ratchet.types import Candidate, Code

Judge: TypeAlias = Callable[[Candidate], Awaitable[str]]
"""Says what is wrong with a candidate; empty when nothing is."""

Stage: TypeAlias = Literal["check", "test"]


class Verdicts:
    """The verdicts of one run.

    Args:
        store: Keeps them, and the candidates that were refused.
        run_id: The run.
        checks: What is quick.
        tests: What takes a while.
    """

    def __init__(
        self, store: Store, run_id: str, checks: Judge | None = None, tests: Judge | None = None
    ) -> None:
        self._store = store
        self._run_id = run_id
        self._judges: dict[Stage, Judge | None] = {"check": checks, "test": tests}

    async def of(self, stage: Stage, candidate: Candidate) -> str:
        """What is wrong with a candidate; empty when nothing is."""
        judge = self._judges[stage]
        if judge is None:
            return ""
        journal, key = self._store.journal, f"{stage}/{candidate.id}"
        known = await asyncio.to_thread(journal.get, self._run_id, key)
        if known is None:
            fault = await judge(candidate)
            if fault:  # somebody may want to look at what was refused
                await asyncio.to_thread(self._store.candidates.put, candidate, time.time())
            known = await asyncio.to_thread(journal.append, self._run_id, key, fault, time.time())
        return str(known)

    def may_fail(self, candidate: Candidate, baseline: Candidate) -> bool:
        """Whether there are tests, and a candidate has other code than a baseline that passes."""
        return self._judges["test"] is not None and any(
            isinstance(resource, Code) and resource != baseline.resources.get(name)
            for name, resource in candidate.resources.items()
        )
