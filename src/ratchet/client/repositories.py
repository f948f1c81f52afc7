"""What the loop decided, at the server: experiments and releases. They are only read here."""

from __future__ import annotations

import builtins
from typing import Generic

import msgspec

from ratchet.client.agents import Agents
from ratchet.client.call import Carrier, RemoteRepository, Steps, endpoint, get
from ratchet.client.rollouts import Rollouts
from ratchet.client.spans import FeedbackLog, Scores, Spans
from ratchet.client.traces import Conversations, Traces
from ratchet.client.versions import Candidates, Datasets, Resources
from ratchet.types import Experiment, NotFound, Release


class _Experiments(msgspec.Struct, frozen=True):
    experiments: builtins.list[Experiment]


class _Releases(msgspec.Struct, frozen=True):
    releases: builtins.list[Release]


class Experiments(RemoteRepository[Carrier]):
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


class Releases(RemoteRepository[Carrier]):
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


class Repositories(Generic[Carrier]):
    """The repositories; their methods block or are awaited as the carrier is."""

    def __init__(self, carrier: Carrier) -> None:
        self.resources = Resources(carrier)
        self.candidates = Candidates(carrier, self.resources)
        self.datasets = Datasets(carrier)
        self.rollouts = Rollouts(carrier)
        self.spans = Spans(carrier)
        self.traces = Traces(carrier)
        self.conversations = Conversations(carrier)
        self.scores = Scores(carrier)
        self.feedback = FeedbackLog(carrier)
        self.agents = Agents(carrier)
        self.experiments = Experiments(carrier)
        self.releases = Releases(carrier)
