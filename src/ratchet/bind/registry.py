"""The resources that the loaded source declares, by name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import NamedTuple

from ratchet.types import Declaration, InputError


class DeclarationSite(NamedTuple):
    """Where a resource is declared."""

    file: str
    kind: str
    """What declares it, such as `prompt`."""
    code: CodeType | None = None
    """The code that the declaring call stands in; None when `kind` names the one place."""
    line: int = 0

    def is_same(self, other: DeclarationSite) -> bool:
        """Whether a declaration at the one place, run again, would stand at the other.

        A reload runs another code object, in which lines may have moved; within one code object
        each line is a place of its own.
        """
        if self[:2] != other[:2]:
            return False
        return self.code is None or self.code is not other.code or self.line == other.line

    def __str__(self) -> str:
        where = f"{self.file}, line {self.line}" if self.line else self.file
        return f"a {self.kind} in {where}"


_declared: dict[str, Callable[[], Declaration]] = {}
_sites: dict[str, DeclarationSite] = {}


def declare(name: str, site: DeclarationSite, declaration: Callable[[], Declaration]) -> None:
    """Register a resource.

    Args:
        name: Its name; letters, digits, `_`, `-` and `.`.
        site: Where: declaring it there again (a reload) is no conflict.
        declaration: Makes the declaration, when somebody asks.

    Raises:
        InputError: The name is malformed, or already declared elsewhere.
    """
    if not isinstance(name, str) or not name or not all(c.isalnum() or c in "_-." for c in name):
        raise InputError(
            f"{name!r} cannot name a resource.", hint="Use letters, digits, '_', '-' and '.'."
        )
    known = _sites.get(name)
    if known is not None and not known.is_same(site):
        raise InputError(
            f"Two resources are named {name!r}: {known} and {site}.",
            hint="Give each resource a name of its own.",
        )
    _sites[name] = site
    _declared[name] = declaration


def declarations() -> dict[str, Declaration]:
    """Everything declared so far, by name."""
    return {name: make() for name, make in _declared.items()}


def forget() -> None:
    """Forget every declaration; for tests that load several agents in one process."""
    _declared.clear()
    _sites.clear()


def site_of(frame: FrameType, kind: str) -> DeclarationSite:
    """The place of a declaring call."""
    return DeclarationSite(frame.f_code.co_filename, kind, frame.f_code, frame.f_lineno)


def caller(depth: int = 2) -> FrameType:
    """The frame that called the function that calls this one."""
    return sys._getframe(depth)
