"""The resources that the loaded source declares, by name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

from ratchet.types import Declaration, InputError

_declared: dict[str, Callable[[], Declaration]] = {}
_places: dict[str, tuple[str | None, str]] = {}


def declare(
    name: str, place: tuple[str | None, str], declaration: Callable[[], Declaration]
) -> None:
    """Register a resource.

    Args:
        name: Its name; letters, digits, `_`, `-` and `.`.
        place: File and kind: declaring it there again (a reload) is no conflict.
        declaration: Makes the declaration, when somebody asks.

    Raises:
        InputError: The name is malformed, or already declared elsewhere.
    """
    if not isinstance(name, str) or not name or not all(c.isalnum() or c in "_-." for c in name):
        raise InputError(
            f"{name!r} cannot name a resource.", hint="Use letters, digits, '_', '-' and '.'."
        )
    known = _places.get(name)
    if known is not None and known != place:
        raise InputError(
            f"Two resources are named {name!r}: a {known[1]} in {known[0]} and a {place[1]} in"
            f" {place[0]}.",
            hint="Give each resource a name of its own.",
        )
    _places[name] = place
    _declared[name] = declaration


def declarations() -> dict[str, Declaration]:
    """Everything declared so far, by name."""
    return {name: make() for name, make in _declared.items()}


def forget() -> None:
    """Forget every declaration; for tests that load several agents in one process."""
    _declared.clear()
    _places.clear()


def caller(depth: int = 2) -> FrameType:
    """The frame that called the function that calls this one."""
    return sys._getframe(depth)
