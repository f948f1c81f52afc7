"""The table of hostile programs, and the decorator that adds to it."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Attack = Callable[[dict[str, Any]], list[str]]

REFUSED = (
    "OSError",
    "ProcessLookupError",
    "PermissionError",
    "FileNotFoundError",
    "gaierror",
    "URLError",
)
"""Errors that say that something was refused; any other would be a mistake in the program."""


@dataclass(frozen=True)
class Program:
    """One hostile program.

    It is a function that gets facts of its surroundings, tries something, and returns what it
    achieved, as a list of words: an empty one when nothing.
    """

    name: str
    does: str
    """What it tries, in a few words."""
    group: str
    source: str
    ends: tuple[str, ...]
    """Statuses that say that it was contained."""
    raises: tuple[str, ...]
    """Names of exceptions that it may end with."""
    never_loose: bool
    """It must not be run without a sandbox, not even to see what would happen."""


PROGRAMS: dict[str, Program] = {}


def hostile(
    does: str,
    *,
    ends: tuple[str, ...] = ("ok", "raised"),
    raises: tuple[str, ...] = REFUSED,
    never_loose: bool = False,
) -> Callable[[Attack], Attack]:
    """Add a function to the table. Its source must stand alone."""

    def add(attack: Attack) -> Attack:
        lines = textwrap.dedent(inspect.getsource(attack)).splitlines()
        start = next(i for i, line in enumerate(lines) if line.startswith("def "))
        source = "\n".join(["from __future__ import annotations", *lines[start:], ""])
        name = attack.__name__
        assert name not in PROGRAMS, name
        PROGRAMS[name] = Program(
            name=name,
            does=does,
            group=attack.__module__.rpartition(".")[2],
            source=source,
            ends=ends,
            raises=raises,
            never_loose=never_loose,
        )
        return attack

    return add
