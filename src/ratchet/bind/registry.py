"""Registry of the resources declared by the loaded source."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import NamedTuple

import msgspec

from ratchet.bind import context
from ratchet.types import Declaration, InputError, short_version


class DeclarationSite(NamedTuple):
    """Location of a resource's declaration."""

    file: str
    kind: str
    """The declaring call's kind, such as `prompt`."""
    code: CodeType | None = None
    """Code object that contains the declaring call; None if `kind` identifies the location."""
    line: int = 0

    def is_same(self, site: DeclarationSite) -> bool:
        """Whether a declaration at this location repeats the one at the other.

        A reload runs another code object, in which lines may have moved; within one code object,
        each line is a location of its own.
        """
        if self[:2] != site[:2]:
            return False
        return self.code is None or self.code is not site.code or self.line == site.line

    def __str__(self) -> str:
        where = f"{self.file}, line {self.line}" if self.line else self.file
        return f"a {self.kind} in {where}"


_declared: dict[str, Callable[[], Declaration]] = {}
_sites: dict[str, DeclarationSite] = {}
_versions: dict[str, str] = {}
_versions_of = -1
_declarations = 0
"""Number of declarations so far, repeated ones included."""


def declare(name: str, site: DeclarationSite, declaration: Callable[[], Declaration]) -> None:
    """Register a resource.

    Args:
        name: Its name; letters, digits, `_`, `-` and `.`.
        site: Location; declaring it there again (a reload) is not a conflict.
        declaration: Creates the declaration on demand.

    Raises:
        InputError: The name is malformed, or already declared elsewhere.
    """
    if not isinstance(name, str) or not name or not all(c.isalnum() or c in "_-." for c in name):
        raise InputError(
            f"{name!r} is not a valid resource name.", hint="Use letters, digits, '_', '-' and '.'."
        )
    existing = _sites.get(name)
    if existing is not None and not existing.is_same(site):
        raise InputError(
            f"Two resources are named {name!r}: {existing} and {site}.",
            hint="Give each resource its own name.",
        )
    global _declarations
    _sites[name] = site
    _declared[name] = declaration
    _declarations += 1


def declarations() -> dict[str, Declaration]:
    """Return all declarations, by name."""
    read = context.read_at_import()
    declared = {name: make() for name, make in _declared.items()}
    return {
        name: msgspec.structs.replace(declaration, read_at_import=True)
        if name in read
        else declaration
        for name, declaration in declared.items()
    }


def source_versions() -> dict[str, str]:
    """Short version of each declared resource as the source has it, by name.

    The same object until something else is declared. One whose source cannot be read is left out.
    """
    global _versions, _versions_of
    if _versions_of != _declarations:
        begun, versions = _declarations, dict[str, str]()
        for name, make in list(_declared.items()):
            with contextlib.suppress(Exception):  # an agent's call must not fail for it
                versions[name] = short_version(make().resource)
        _versions, _versions_of = versions, begun
    return _versions


def forget() -> None:
    """Clear the registry; for tests that load several agents in one process."""
    _declared.clear()
    _sites.clear()
    global _declarations
    _declarations += 1
    context.read_at_import().clear()


def site_of(frame: FrameType, kind: str) -> DeclarationSite:
    """Location of a declaring call."""
    return DeclarationSite(frame.f_code.co_filename, kind, frame.f_code, frame.f_lineno)


def caller(depth: int = 2) -> FrameType:
    """Frame of the caller of the function that calls this one."""
    return sys._getframe(depth)
