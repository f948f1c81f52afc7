"""Names of the queues that many machines share: they state which agent a runner must have.

ENTRY@SOURCE/pyVERSION/plain/NAME, or …/sandbox/NAME for candidates with code. A runner serves the
queues of the agent that it has loaded, so it never sees rollouts that it must not run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, get_args
from urllib.parse import quote, unquote

import msgspec

from ratchet.run.program import AnyAgent
from ratchet.store.turns import QUEUE_WILDCARD

Place = Literal["plain", "sandbox"]
"""Where rollouts run: as the agent usually does, or in a runner's sandbox."""

_NAME = re.compile(
    r"(?P<entry>[^@/]+)@(?P<source>[^@/]+)/py(?P<python>[^/]+)"
    rf"/(?P<place>{'|'.join(get_args(Place))})/(?P<name>.+)"
)


class AgentBuild(msgspec.Struct, frozen=True, kw_only=True):
    """An agent, the version of its source, and the Python that runs it."""

    entry: str
    """MODULE:FUNCTION, or a command."""
    source: str
    """Hash of its source files."""
    python: str
    """As 3.12; `any` for a command."""

    @classmethod
    def of(cls, agent: AnyAgent) -> AgentBuild:
        """The build of an agent that is loaded, or that would be started."""
        return cls(entry=agent.spec.entry, source=agent.loaded_version(), python=agent.python)

    def __str__(self) -> str:
        python = "" if self.python == "any" else f" and Python {self.python}"
        return f"version {self.source[:12]} of its source{python}"

    def queue(self, name: str, place: Place) -> str:
        """The queue of this build's rollouts.

        Args:
            name: What the rollouts belong to, such as a run.
            place: Where they run.
        """
        return f"{entry_prefix(self.entry)}{self.source}/py{self.python}/{place}/{name}"

    def queues(self, places: Sequence[Place]) -> tuple[str, ...]:
        """All queues that a runner of this build serves, as patterns."""
        return tuple(self.queue("", place).removesuffix("/") + QUEUE_WILDCARD for place in places)

    def differs(self, reference: AgentBuild) -> str:
        """What this build has and another lacks, as a clause; empty if they are equal."""
        parts = []
        if self.source != reference.source:
            parts.append(f"version {self.source[:12]} of its source")
        if self.python != reference.python:
            parts.append(f"Python {self.python}")
        return " and ".join(parts)


class FleetQueue(msgspec.Struct, frozen=True, kw_only=True):
    """What the name of a queue states."""

    build: AgentBuild
    place: Place


def read_queue(name: str) -> FleetQueue | None:
    """Read the name of a queue, or a pattern of such names; None for another name."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    build = AgentBuild(
        entry=unquote(match["entry"]), source=match["source"], python=match["python"]
    )
    place: Place = "sandbox" if match["place"] == "sandbox" else "plain"
    return FleetQueue(build=build, place=place)


def entry_prefix(entry: str) -> str:
    """Prefix of the names of all queues of an agent, whatever its version."""
    return f"{quote(entry, safe=':')}@"
