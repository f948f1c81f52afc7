"""Labels: what people say of a rollout's output, against which evaluators are measured."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Drawn: TypeAlias = Literal["random", "chosen", "imported"]


class Label(msgspec.Struct, frozen=True, kw_only=True):
    """One person's verdict on one rollout or recorded trace."""

    id: str
    """Set by the sender, which makes resending safe."""
    value: float
    """In [0, 1]: 1 is right, 0 is wrong."""
    rollout_id: str = ""
    trace_id: str = ""
    criterion: str = ""
    """What was judged; empty for the output as a whole."""
    labeller: str = ""
    drawn: Drawn = "imported"
    """How the subject was selected. random: drawn evenly, so that means over labels are unbiased.
    chosen: the one that teaches most. imported: unknown."""
    comment: str = ""
    created_at: float = 0.0
    """Unix seconds."""
