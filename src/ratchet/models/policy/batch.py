"""The input of a forward pass: tokens of several sequences, side by side without padding."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ratchet.models.policy.lora import LoadedAdapter


@dataclass(frozen=True)
class TokenSpan:
    """Neighbouring tokens of one sequence."""

    slot: int
    row: int
    """Row of its first token in the batch."""
    count: int
    start: int
    """Position of its first token in the sequence."""


@dataclass
class TokenBatch:
    """N tokens and where they belong.

    The first `decoding` rows are the newest token of each of the slots 0, 1, …
    """

    ids: Any
    """[N]"""
    positions: Any
    """Place of each token in its sequence. [N]"""
    cells: Any
    """Place of each token in the cache: slot × capacity + position. [N]"""
    decoding: int
    length: int
    """Length of the longest of the decoding sequences, with this token."""
    spans: list[TokenSpan]
    """The rows after the decoding rows; and each decoding row by itself if that is faster."""
    masks: list[Any] = field(default_factory=list)
    """For each span: None at the beginning of its sequence, else what may be attended to."""
    groups: list[Any] = field(default_factory=list)
    """For batches whose results do not depend on one another: rows by rounded length."""
    adapters: list[tuple[LoadedAdapter, Any]] = field(default_factory=list)
    """Adapters and their rows; None for all rows."""
