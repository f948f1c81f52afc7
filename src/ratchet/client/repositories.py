"""Read-only repositories of experiments and releases, and the set of all repositories."""

from __future__ import annotations

import builtins
from typing import Generic

import msgspec

from ratchet.client.agents import Agents
from ratchet.client.call import RemoteRepository, Steps, TransportT, endpoint, get
from ratchet.client.cycles import Cycles, OperatorCommands
from ratchet.client.fleet import Fleet
from ratchet.client.labels import Labels
from ratchet.client.rollouts import Rollouts
from ratchet.client.spans import FeedbackLog, Scores, Spans
from ratchet.client.traces import Conversations, Recordings, Traces
from ratchet.client.traffic import Traffic
from ratchet.client.transitions import Transitions
from ratchet.client.versions import Candidates, Datasets, Resources
from ratchet.types import Experiment, NotFound, Release


class _Experiments(msgspec.Struct, frozen=True):
    experiments: builtins.list[Experiment]


class _Releases(msgspec.Struct, frozen=True):
    releases: builtins.list[Release]


class Experiments(RemoteRepository[TransportT]):
    """Experiments by id."""

    @endpoint
    def get(self, id: str) -> Steps[Experiment | None]:
        """The experiment with that id, or None."""
        try:
            answer = yield get("experiments", id)
        except NotFound:
            return None
        return answer.read(Experiment)

    @endpoint
    def list(self, limit: int = 100) -> Steps[builtins.list[Experiment]]:
        """Experiments, newest first."""
        answer = yield get("experiments", limit=limit)
        return answer.read(_Experiments).experiments


class Releases(RemoteRepository[TransportT]):
    """Releases by id."""

    @endpoint
    def get(self, id: str) -> Steps[Release | None]:
        """The release with that id, or None."""
        try:
            answer = yield get("releases", id)
        except NotFound:
            return None
        return answer.read(Release)

    @endpoint
    def list(self, limit: int = 100) -> Steps[builtins.list[Release]]:
        """Releases, newest first."""
        answer = yield get("releases", limit=limit)
        return answer.read(_Releases).releases


class Repositories(Generic[TransportT]):
    """All repositories of a server; their methods block or are awaitable, as the transport is."""

    def __init__(self, transport: TransportT) -> None:
        self.resources = Resources(transport)
        self.candidates = Candidates(transport, self.resources)
        self.datasets = Datasets(transport)
        self.rollouts = Rollouts(transport)
        self.fleet = Fleet(transport)
        self.spans = Spans(transport)
        self.transitions = Transitions(transport)
        self.traces = Traces(transport)
        self.recordings = Recordings(transport)
        self.conversations = Conversations(transport)
        self.scores = Scores(transport)
        self.feedback = FeedbackLog(transport)
        self.labels = Labels(transport)
        self.agents = Agents(transport)
        self.traffic = Traffic(transport)
        self.cycles = Cycles(transport)
        self.operator_commands = OperatorCommands(transport)
        self.experiments = Experiments(transport)
        self.releases = Releases(transport)
