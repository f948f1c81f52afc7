"""The interface of proposers: draft changes to a candidate from its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from ratchet.learn.evidence import Example
from ratchet.learn.lab import Lab
from ratchet.types import Candidate, Resource


class ProposalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a proposer."""

    parent: Candidate
    targets: tuple[str, ...]
    """Names of the resources to change, at least one."""
    examples: tuple[Example, ...] = ()
    """Results of the parent, on train tasks only, the low ones first."""
    inspiration: Candidate | None = None
    """Another candidate that was kept."""
    weights: Mapping[str, float] = {}
    """Weights of operators by name; 1 for those not listed."""
    baseline: Candidate
    """The source's own candidate: reference for placeholders, signatures and lengths."""
    count: int = 1
    """Number of drafts wanted."""
    seed: int
    max_growth: float = 4.0
    """Maximum length of a text, as a multiple of the source's own; 4,000 characters are always
    allowed."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A proposed change, or the reason why there is none."""

    resources: dict[str, Resource] = {}
    """Changed resources by name; empty if there is a problem."""
    operator: str = ""
    """Operator to credit if the change survives, such as `constant`."""
    reason: str = ""
    """The change as a sentence."""
    problem: str = ""
    """Why there is no usable change, as a sentence."""


class Proposer(Protocol):
    """Drafts changes to candidates, without a coach."""

    @property
    def name(self) -> str:
        """Its name, as recorded in runs."""
        ...

    def suits(self, resource: Resource) -> bool:
        """Whether it can change a resource."""
        ...

    async def propose(self, case: ProposalRequest, lab: Lab) -> Sequence[Draft]:
        """Draft at most `count` changes of the parent."""
        ...
