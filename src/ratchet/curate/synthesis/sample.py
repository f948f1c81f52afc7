"""A synthetic input before it becomes a task, and the methods that make them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One synthetic input."""

    input: Any
    by: str
    """How it was made."""
    sources: tuple[str, ...] = ()
    """Ids of the tasks that it was made of."""
    expected: Any = None
    """The expected answer, if the method knows it; None when unknown."""
    metadata: dict[str, Any] = {}
    rewording: bool = False
    """Whether it says the same as its source in another form, and so is no duplicate of it."""


class Method(Protocol):
    """Makes samples."""

    async def draw(self, count: int) -> Sequence[Sample]:
        """Make up to about this many samples that it has not made before; none when exhausted."""
        ...
