"""The simulated model behind the relay, for a run without a key."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any
from urllib.parse import urlsplit

from ratchet.hooks.python.ratchet_recording_hook import shapes
from ratchet.models import simulated
from ratchet.run.model_relay import RelayAnswer, RelayedRequest
from ratchet.wire.recording.model_calls import (
    asks_model,
    body_of,
    called_tools,
    dialect_of,
    texts_of_request,
)

MAX_SAME_REQUESTS = 3
"""Number of requests with the same texts that are answered with a tool call; then with a text."""
TURNS_OF_LOOP = 5
"""Requests with the same beginning that get an answer; later ones get a phrase that they quote.

An agent that loops ends at words that its prompt tells the model to say, such as 'TERMINATE'.
"""
BEGINNING = 80
"""Number of characters at the beginning that must be equal."""


class SimulatedModel:
    """Answers requests in the dialect that they are made in."""

    def __init__(self) -> None:
        self._asked: Counter[str] = Counter()
        self._begun: Counter[str] = Counter()
        self._hosts: set[str] = set()

    def answer(self, request: RelayedRequest) -> RelayAnswer | None:
        """The answer to a request; None if the request is for another server."""
        body, path = body_of(request), request.path.partition("?")[0]
        host = urlsplit(request.url).netloc
        if request.method == "POST" and (other := simulated.beside(path)):
            return _whole(other)
        if shapes.about_models(path):
            return _whole(simulated.about_models(path))
        if not asks_model(request, body):
            # What else its host is told, such as traces of runs, is taken and forgotten.
            return _whole({}) if host in self._hosts else None
        self._hosts.add(host)
        if "embed" in path.lower():
            return _whole(simulated.embeddings(path, body))
        texts = [text.text for text in texts_of_request(body)]
        mark = hashlib.sha256("\0".join(texts).encode("utf-8", "replace")).hexdigest()[:8]
        self._asked[mark] += 1
        # An agent that hands the conversation on and back again would never end.
        calls = self._asked[mark] <= MAX_SAME_REQUESTS
        begins = texts[0][:BEGINNING] if texts else ""
        self._begun[begins] += 1
        turn = simulated.turn_of(
            body,
            texts,
            called_tools(body),
            mark,
            calls=calls,
            extra_turns=max(0, self._begun[begins] - TURNS_OF_LOOP),
        )
        reply = simulated.spoken(dialect_of(path, body), path, body, turn)
        return RelayAnswer(
            pieces=reply.pieces, status=reply.status, content_type=reply.content_type
        )


def _whole(value: Any) -> RelayAnswer:
    return RelayAnswer(pieces=[json.dumps(value).encode()])
