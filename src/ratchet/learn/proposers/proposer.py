"""The interface of proposers: draft changes to a candidate from its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from ratchet.learn.evidence import Example, TriedChange
from ratchet.learn.lab import Lab
from ratchet.llm import Reply
from ratchet.types import Candidate, Resource


class ProposalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a proposer."""

    step: str
    """Name of the step, unique in the run and stable across resumption; prefix of the names of
    coach calls."""
    parent: Candidate
    targets: tuple[str, ...]
    """Names of the resources to change, at least one."""
    examples: tuple[Example, ...] = ()
    """Results of the parent, on train tasks only."""
    first: int = 0
    """Number of examples, from the first one on, chosen for a first request; 0 for no choice."""
    overview: str = ""
    """What the parent scored on how many tasks, and how often each kind of failure occurred."""
    tried: tuple[TriedChange, ...] = ()
    """The changes that made the parent, and those tried on it."""
    inspiration: Candidate | None = None
    """Another candidate that does better where this one fails."""
    comparison: str = ""
    """What both scored on the tasks that both ran, as a sentence."""
    weights: Mapping[str, float] = {}
    """Weights of operators by name; 1 for those not listed."""
    baseline: Candidate
    """The source's own candidate: reference for placeholders, signatures and lengths."""
    count: int = 1
    """Number of drafts wanted, if several cost no more than one."""
    calls: int = 16
    """Maximum number of coach calls: fewer than usual near the end of the budget."""
    seed: int
    max_growth: float = 4.0
    """Maximum length of a text, as a multiple of the source's own; 4,000 characters are always
    allowed."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A proposed change, or the reason why there is none."""

    resources: dict[str, Resource] = {}
    """Changed resources by name; empty if there is a problem."""
    operator: str = ""
    """Operator to credit if the change survives, such as `rewrite` or `constant`."""
    reason: str = ""
    """The change as a sentence."""
    replies: tuple[Reply, ...] = ()
    """All coach replies paid for, usable or not."""
    problem: str = ""
    """Why there is no usable change, as a sentence."""
    declined: str = ""
    """Why the coach would change nothing, as a sentence; empty if it did not say so."""
    asked_in_vain: bool = False
    """Whether the coach was asked once more after its change, and had nothing to add."""


class Proposer(Protocol):
    """Drafts changes of candidates."""

    @property
    def name(self) -> str:
        """Its name in options and records."""
        ...

    @property
    def coach_calls(self) -> int:
        """Maximum coach calls of one `propose`; 0 if it needs no coach."""
        ...

    def suits(self, resource: Resource) -> bool:
        """Whether it can change such a resource."""
        ...

    async def propose(self, case: ProposalRequest, lab: Lab) -> Sequence[Draft]:
        """Draft changes; a failed draft gives the reason in its `problem`.

        Raises:
            CoachUnavailable: It needs a coach, and none is available.
            BudgetExhausted: No coach calls are left.
        """
        ...


__all__ = ["Draft", "Example", "ProposalRequest", "Proposer", "TriedChange"]
