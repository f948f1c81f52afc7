"""Verdicts on candidates in two stages, each computed once and journaled.

Fast checks (milliseconds) run before a candidate costs a rollout. Slow ones (a type checker, the
repository's own tests) run for candidates that did well on a few tasks, before they cost many, and
before one is accepted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

from ratchet.store import Store
from ratchet.types import Candidate, Code

Judge: TypeAlias = Callable[[Candidate], Awaitable[str]]
"""Returns the fault of a candidate; empty if none."""

Stage: TypeAlias = Literal["check", "test"]


class Verdicts:
    """The verdicts of one run.

    Args:
        store: Stores the verdicts and the refused candidates.
        run_id: The run.
        checks: The fast stage.
        tests: The slow stage.
    """

    def __init__(
        self, store: Store, run_id: str, checks: Judge | None = None, tests: Judge | None = None
    ) -> None:
        self._store = store
        self._run_id = run_id
        self._judges: dict[Stage, Judge | None] = {"check": checks, "test": tests}

    async def of(self, stage: Stage, candidate: Candidate) -> str:
        """The fault of a candidate; empty if none."""
        judge = self._judges[stage]
        if judge is None:
            return ""
        journal, key = self._store.journal, f"{stage}/{candidate.id}"
        verdict = await asyncio.to_thread(journal.get, self._run_id, key)
        if verdict is None:
            fault = await judge(candidate)
            if fault:  # stored, so that refused candidates can be inspected
                await asyncio.to_thread(self._store.candidates.put, candidate, time.time())
            verdict = await asyncio.to_thread(journal.append, self._run_id, key, fault, time.time())
        return str(verdict)

    def may_fail(self, candidate: Candidate, baseline: Candidate) -> bool:
        """Whether tests exist and the candidate's code differs from a passing baseline's."""
        return self._judges["test"] is not None and any(
            isinstance(resource, Code) and resource != baseline.resources.get(name)
            for name, resource in candidate.resources.items()
        )
