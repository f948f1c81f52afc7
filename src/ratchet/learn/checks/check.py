"""What a check is: it says what is wrong with a candidate before it costs a rollout, or many."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from ratchet.types import Candidate, Resource


class CandidateChange(msgspec.Struct, frozen=True):
    """A candidate beside the baseline."""

    candidate: Candidate
    resources: Mapping[str, tuple[Resource, Resource]]
    """(baseline's, candidate's) by name, of the resources that differ."""


class Check(Protocol):
    """Finds one kind of fault."""

    async def __call__(self, change: CandidateChange) -> str:
        """What is wrong, in a sentence that names the resource; empty when nothing is."""
        ...


class Checks:
    """Checks in two rows, the cheap ones first in each: the first fault ends it.

    The verdict on a candidate is kept: asking again costs nothing.

    Args:
        baseline: What candidates are compared with.
        checks: What is asked before a candidate costs a rollout.
        tests: What takes seconds, and is asked before a candidate costs many.
    """

    def __init__(
        self, baseline: Candidate, checks: Sequence[Check], tests: Sequence[Check] = ()
    ) -> None:
        self._checks = _Row(baseline, checks)
        self._tests = _Row(baseline, tests)

    async def __call__(self, candidate: Candidate) -> str:
        """What is wrong with a candidate at first sight; empty when nothing is."""
        return await self._checks.verdict(candidate)

    async def test(self, candidate: Candidate) -> str:
        """What a longer look finds, at a candidate that passed the first; empty when nothing."""
        return await self._tests.verdict(candidate)


class _Row:
    def __init__(self, baseline: Candidate, checks: Sequence[Check]) -> None:
        self._baseline = baseline
        self._checks = tuple(checks)
        self._verdicts: dict[str, asyncio.Future[str]] = {}

    async def verdict(self, candidate: Candidate) -> str:
        known = self._verdicts.get(candidate.id)
        if known is None:
            known = asyncio.ensure_future(self._judge(candidate))
            self._verdicts[candidate.id] = known
            # A check that could not be made (it was cancelled, the disk is full) is made again.
            known.add_done_callback(lambda done: self._forget_failed(candidate.id, done))
        return await asyncio.shield(known)

    async def _judge(self, candidate: Candidate) -> str:
        before = self._baseline.resources
        changed = {
            name: (before[name], candidate.resources[name])
            for name in candidate.changed_from(self._baseline)
            if name in before and name in candidate.resources
        }
        for check in self._checks:
            fault = await check(CandidateChange(candidate, changed))
            if fault:
                return fault
        return ""

    def _forget_failed(self, candidate_id: str, done: asyncio.Future[str]) -> None:
        if done.cancelled() or done.exception() is not None:
            self._verdicts.pop(candidate_id, None)
