"""The order of what retrieval found: the very function of examples/stdlib_helper."""

from __future__ import annotations

from typing import Any

from optimisations.rank import run
from stdlib_helper.scoring import rank


def answer(task: dict[str, Any]) -> Any:
    """The agent."""
    return run(rank, task)
