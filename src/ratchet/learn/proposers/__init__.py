"""Proposers: draft changes of candidates, by coach or by syntax-tree mutation."""

from __future__ import annotations

import difflib
from collections.abc import Callable

from ratchet.learn.proposers.llm import LlmProposer
from ratchet.learn.proposers.proposer import Draft, Example, ProposalRequest, Proposer, TriedChange
from ratchet.learn.proposers.syntax import SyntaxProposer
from ratchet.types import InputError

PROPOSERS: dict[str, Callable[[], Proposer]] = {"llm": LlmProposer, "ast": SyntaxProposer}
"""Proposer by name."""


def make_proposer(one: str | Proposer) -> Proposer:
    """The proposer with a name; instances are returned unchanged.

    Raises:
        InputError: No proposer has that name.
    """
    if not isinstance(one, str):
        return one
    factory = PROPOSERS.get(one)
    if factory is None:
        near = difflib.get_close_matches(one, PROPOSERS, n=1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise InputError(f"No proposer is named {one!r}; there are {', '.join(PROPOSERS)}.{meant}")
    return factory()


__all__ = [
    "PROPOSERS",
    "Draft",
    "Example",
    "LlmProposer",
    "ProposalRequest",
    "Proposer",
    "SyntaxProposer",
    "TriedChange",
    "make_proposer",
]
