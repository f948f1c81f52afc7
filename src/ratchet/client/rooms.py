"""Rooms: a server's repositories, one for each noun, as a store has them."""

from __future__ import annotations

from typing import Generic

from ratchet.client.agents import Agents
from ratchet.client.call import Carrier
from ratchet.client.rollouts import Rollouts
from ratchet.client.shelves import Experiments, Releases
from ratchet.client.traces import FeedbackLog, Scores, Spans
from ratchet.client.versions import Candidates, Datasets, Resources
from ratchet.client.views import Conversations, Traces


class Rooms(Generic[Carrier]):
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
