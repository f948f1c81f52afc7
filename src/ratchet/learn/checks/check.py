"""The interface of checks: each reports one kind of fault in a candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from ratchet.types import Candidate, Resource


class CandidateChange(msgspec.Struct, frozen=True):
    """A candidate's changes to the baseline."""

    candidate: Candidate
    resources: Mapping[str, tuple[Resource, Resource]]
    """(baseline's, candidate's) resource by name, for resources that differ."""


class Check(Protocol):
    """Reports one kind of fault."""

    async def __call__(self, change: CandidateChange) -> str:
        """The fault, as a sentence that names the resource; empty if none."""
        ...


class Checks:
    """Runs checks in two stages, the cheap ones first in each; stops at the first fault.

    Args:
        baseline: The candidate to compare with.
        checks: Fast checks, before a candidate costs a rollout.
        tests: Slow checks (seconds), before a candidate costs many rollouts.
    """

    def __init__(
        self, baseline: Candidate, checks: Sequence[Check], tests: Sequence[Check] = ()
    ) -> None:
        self._baseline = baseline
        self._checks = tuple(checks)
        self._tests = tuple(tests)

    async def __call__(self, candidate: Candidate) -> str:
        """The fault that the fast checks find; empty if none."""
        return await self._fault(self._checks, candidate)

    async def test(self, candidate: Candidate) -> str:
        """The fault that the slow checks find after the fast ones passed; empty if none."""
        return await self._fault(self._tests, candidate)

    async def _fault(self, checks: Sequence[Check], candidate: Candidate) -> str:
        before = self._baseline.resources
        changed = {
            name: (before[name], candidate.resources[name])
            for name in candidate.changed_from(self._baseline)
            if name in before and name in candidate.resources
        }
        for check in checks:
            fault = await check(CandidateChange(candidate, changed))
            if fault:
                return fault
        return ""
