"""Uses of system prompts: a text that model calls were made with, and who made them."""

from __future__ import annotations

import msgspec


class PromptUse(msgspec.Struct, frozen=True):
    """A system prompt of recorded model calls."""

    text: str
    speaker: str = ""
    """Name of the agent that made the calls; empty if unknown."""
    tools: frozenset[str] = frozenset()
    """Names of the tools that the model was offered."""
    count: int = 1
    """Number of such calls."""
