"""What a proposer is: it is shown a candidate and how it fared, and drafts changes to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from ratchet.learn.lab import Lab
from ratchet.llm import Reply
from ratchet.types import Candidate, Resource


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """How a candidate fared on one train task."""

    input: Any
    output: Any = None
    expected: Any = None
    error: str = ""
    """Why the rollout failed, timed out or was cut; empty when it did not."""
    value: float | None = None
    """The objective's score; None when the evaluator could not say."""
    feedback: str = ""
    """What the evaluators said of it."""
    trace: str = ""
    """Its steps, shortened, in the order in which they began."""


class TriedChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the same candidate that was tried before."""

    reason: str
    gain: float
    """Mean difference of the objective on the tasks that both ran."""


class ProposalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a proposer is to work on."""

    step: str
    """The step's name, unique in the run and the same whenever it is resumed; it goes before the
    names of coach calls."""
    parent: Candidate
    targets: tuple[str, ...]
    """Names of the resources to change, at least one."""
    examples: tuple[Example, ...] = ()
    """Of train tasks only."""
    tried: tuple[TriedChange, ...] = ()
    inspiration: Candidate | None = None
    """Another candidate that does well where this one does not."""
    weights: Mapping[str, float] = {}
    """How much to prefer an operator, by its name; 1 for those that are not named."""
    baseline: Candidate
    """The source's own, for what must stay as it is: placeholders, signatures, lengths."""
    count: int = 1
    """How many drafts are wanted, where several cost no more than one."""
    calls: int = 16
    """Coach calls that may be made, at most: fewer than usual when the budget ends."""
    seed: int
    max_growth: float = 4.0
    """How many times as long as the source's own a text may become."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A change that a proposer suggests, or why there is none."""

    resources: dict[str, Resource] = {}
    """What is changed, by name; empty when there is a problem."""
    operator: str = ""
    """What is credited when the change survives, such as `rewrite` or `constant`."""
    reason: str = ""
    """What was changed, in a sentence for people."""
    replies: tuple[Reply, ...] = ()
    """The coach's answers that it came from; all that were paid for, usable or not."""
    problem: str = ""
    """Why there is nothing usable, in a sentence."""


class Proposer(Protocol):
    """Drafts changes of candidates."""

    @property
    def name(self) -> str:
        """Its name, as options and records have it."""
        ...

    @property
    def coach_calls(self) -> int:
        """Coach calls that one `propose` makes at most where there are enough; 0 when it needs no
        coach."""
        ...

    def suits(self, resource: Resource) -> bool:
        """Whether it can change such a resource."""
        ...

    async def propose(self, case: ProposalRequest, lab: Lab) -> Sequence[Draft]:
        """Draft changes; one that came to nothing says why in its `problem`.

        Raises:
            CoachUnavailable: It needs a coach, and there is none.
            BudgetExhausted: The budget allows no more coach calls.
        """
        ...
