"""What the state machine needs of the rest of Ratchet, to measure and act for a cycle."""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from ratchet.types import Activation, Cycle, CycleAction, StageDecision

RequestState: TypeAlias = Literal["open", "merged", "closed"]


class Noticed(msgspec.Struct, frozen=True, kw_only=True):
    """What calls for an improvement."""

    sentence: str
    problem_id: str = ""
    """The worst problem that nobody works on; empty without one."""


class Captured(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks that there are to learn from."""

    dataset: str
    """NAME@VERSION."""
    tasks: int
    added: int


class Learned(msgspec.Struct, frozen=True, kw_only=True):
    """How learning and the held-out experiment ended."""

    verdict: Literal["promote", "no_gain", "not_proved", "waits"]
    """not_proved: it looks better on too few tasks; more of them continue the comparison. waits:
    people have to label pairs before the decision."""
    sentence: str
    run_id: str
    baseline_id: str
    candidate_id: str
    experiment_id: str
    resources: tuple[str, ...] = ()
    """Names of the resources that the candidate changes."""
    files: tuple[str, ...] = ()
    """Files that a patch would change; empty where there is no file to patch."""
    runtime_refusal: str = ""
    """Why the candidate cannot be released at run time; empty when it can."""
    request_refusal: str = ""
    """Why it cannot be released by a pull request; empty when it can."""
    rollouts: int = 0
    dollars: float = 0.0


class StageMeasurement(msgspec.Struct, frozen=True, kw_only=True):
    """Where a live stage stands."""

    decision: StageDecision
    """Its verdict is None while the stage runs."""
    progress: dict[str, Any]
    """The stage's whole state as plain data, from which the next measurement continues."""
    units: int = 0
    """Observations so far."""


class Parts(Protocol):
    """All that a cycle calls. Everything here may be called again after a crash."""

    async def noticed(self, since: float) -> Noticed | None:
        """What calls for an improvement among live traces since a time; None if nothing does."""
        ...

    def active(self) -> Activation | None:
        """The activation of the release now in effect at run time; None if there is none."""
        ...

    def why_no_shadow(self, cycle: Cycle) -> str:
        """Why the cycle's candidate cannot run beside live traffic; empty when it can."""
        ...

    def capture(self, cycle: Cycle) -> Captured:
        """Make tasks of the live traces that were bad."""
        ...

    async def learn(self, cycle: Cycle) -> Learned:
        """Learn and prove on held-out tasks, or resume that where it was interrupted."""
        ...

    async def shadow(self, cycle: Cycle) -> StageMeasurement:
        """Mirror some more live inputs to the candidate."""
        ...

    async def canary(self, cycle: Cycle) -> StageMeasurement:
        """Read the outcomes of both arms since the last measurement."""
        ...

    async def watch(self, cycle: Cycle) -> StageMeasurement:
        """Read the release's outcomes since the last measurement."""
        ...

    async def request_state(self, cycle: Cycle) -> RequestState:
        """State of the cycle's pull request.

        Raises:
            RatchetError: It cannot be read now.
        """
        ...

    async def perform(self, action: CycleAction, cycle: Cycle) -> dict[str, Any]:
        """Carry out an action; when that has happened before, find it done.

        Returns:
            What the cycle needs of the result: fields of `Cycle`, such as `release_id`.

        Raises:
            RatchetError: It cannot be carried out now; a `retry_at` of the error is respected.
        """
        ...
