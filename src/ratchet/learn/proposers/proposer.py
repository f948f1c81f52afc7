"""The interface of proposers: draft changes to a candidate from its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from ratchet.learn.lab import Lab
from ratchet.llm import Reply
from ratchet.types import Candidate, Resource


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate's result on one train task."""

    input: Any
    output: Any = None
    expected: Any = None
    error: str = ""
    """Why the rollout failed, timed out or was cut off; empty if it did not."""
    value: float | None = None
    """The objective's score; None if the evaluator failed."""
    feedback: str = ""
    """The evaluators' rationales."""
    trace: str = ""
    """Its steps in start order, truncated."""


class TriedChange(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier change of the same candidate."""

    reason: str
    gain: float
    """Mean difference of the objective on the tasks that both candidates ran."""


class ProposalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a proposer."""

    step: str
    """Name of the step, unique in the run and stable across resumption; prefix of the names of
    coach calls."""
    parent: Candidate
    targets: tuple[str, ...]
    """Names of the resources to change, at least one."""
    examples: tuple[Example, ...] = ()
    """From train tasks only."""
    tried: tuple[TriedChange, ...] = ()
    inspiration: Candidate | None = None
    """Another candidate that does better where this one fails."""
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
    """Maximum length of a text, as a multiple of the source's own."""


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
