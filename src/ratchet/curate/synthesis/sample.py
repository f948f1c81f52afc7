"""A synthetic input before it becomes a task, and the methods that make them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """A synthetic input."""

    input: Any
    by: str
    """How it was made."""
    sources: tuple[str, ...] = ()
    """Ids of the tasks that it was made from."""
    expected: Any = None
    """The expected answer, if the method knows it; None when unknown."""
    metadata: dict[str, Any] = {}
    rewording: bool = False
    """Whether it deliberately repeats its source in another form, and so is not a duplicate."""


class Method(Protocol):
    """Makes samples."""

    async def draw(self, count: int) -> Sequence[Sample]:
        """Make up to about this many samples that it has not made before; none when exhausted."""
        ...
