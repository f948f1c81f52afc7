"""What the loop decided, at the server: experiments and releases. They are only read here."""

from __future__ import annotations

import builtins

import msgspec

from ratchet.client.call import Carrier, Room, Steps, endpoint, get
from ratchet.types import Experiment, NotFound, Release


class _Experiments(msgspec.Struct, frozen=True):
    experiments: builtins.list[Experiment]


class _Releases(msgspec.Struct, frozen=True):
    releases: builtins.list[Release]


class Experiments(Room[Carrier]):
    """Experiments by id."""

    @endpoint
    def get(self, id: str) -> Steps[Experiment | None]:
        """The experiment of that id, or None."""
        try:
            answer = yield get("experiments", id)
        except NotFound:
            return None
        return answer.read(Experiment)

    @endpoint
    def list(self, limit: int = 100) -> Steps[builtins.list[Experiment]]:
        """The newest first."""
        answer = yield get("experiments", limit=limit)
        return answer.read(_Experiments).experiments


class Releases(Room[Carrier]):
    """Releases by id."""

    @endpoint
    def get(self, id: str) -> Steps[Release | None]:
        """The release of that id, or None."""
        try:
            answer = yield get("releases", id)
        except NotFound:
            return None
        return answer.read(Release)

    @endpoint
    def list(self, limit: int = 100) -> Steps[builtins.list[Release]]:
        """The newest first."""
        answer = yield get("releases", limit=limit)
        return answer.read(_Releases).releases
