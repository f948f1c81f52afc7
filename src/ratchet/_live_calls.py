"""Joins `bind` and `observe`, which may not import each other: the versions of a live call.

`observe` learns what the agent should run and marks where a live call begins; `bind` chooses the
versions that it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from ratchet.types import LiveVersions, Resource


class CallVersions(msgspec.Struct, frozen=True):
    """The resources that one live call runs with, from its beginning to its end."""

    resources: Mapping[str, Resource]
    attributes: dict[str, Any] = {}
    """Of the call's root span, so that its outcome can be told apart."""


class LiveCall:
    """A live call: what it runs with, and whether it has ended."""

    __slots__ = ("over", "resources")

    def __init__(self, resources: Mapping[str, Resource]) -> None:
        self.resources = resources
        self.over = False


find: Callable[[], LiveCall | None] | None = None
"""Finds the live call of the running code; set when `observe` records its first step."""


def current() -> LiveCall | None:
    """The live call that this code belongs to; None outside of one, and after its end."""
    call = None if find is None else find()
    return None if call is None or call.over else call


class Chooser(Protocol):
    """Chooses the versions of live calls. Its methods never block on I/O and never raise."""

    def serve(self, versions: LiveVersions | None, /) -> None:
        """Choose among these from now on; None for the agent's own source."""
        ...

    def choose(self, unit: str, /, *, conversation: bool) -> CallVersions | None:
        """The versions of a call that begins now; None while there is nothing to choose from.

        Args:
            unit: What a canary's assignment is constant for.
            conversation: Whether the unit is a conversation, which keeps its release.
        """
        ...

    def forked(self) -> None:
        """Go on in a forked child."""
        ...


chooser: Chooser | None = None
"""Set when `ratchet.bind` is imported."""
