"""Checks what a candidate changes before live agents resolve to it."""

from __future__ import annotations

from collections.abc import Sequence

from ratchet.bind.code import same_behaviour
from ratchet.types import Candidate, Code, InputError


def check_live(candidate: Candidate, origins: Sequence[Candidate]) -> None:
    """Check that a candidate can take effect without a deploy.

    Args:
        candidate: The candidate.
        origins: Its first ancestors: the source it was learned from.

    Raises:
        InputError: It changes code. Code runs only where it was merged, or in a sandbox.
    """
    for name, resource in candidate.resources.items():
        originals = [origin.resources.get(name) for origin in origins]
        if isinstance(resource, Code) and not any(
            isinstance(original, Code) and same_behaviour(resource, original)
            for original in originals
        ):
            raise InputError(
                f"Candidate {candidate.id[:12]} changes the code of {name!r}, but live agents "
                "only run code that was merged.",
                hint="Merge its branch or pull request. At run time, releases change only "
                "prompts, params and models.",
            )
