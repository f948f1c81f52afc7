"""What a worker process and its parent say to each other, over a socket pair."""

from __future__ import annotations

import struct
from typing import Any, TypeAlias

import msgspec

from ratchet.run.agent import AgentSpec
from ratchet.types import Claim, Outcome, Resource

HEADER = struct.Struct("!I")
"""Each message is its length and then itself in JSON, which what the store holds always has; in
MessagePack a number beyond 64 bits has no form."""


AttemptKey: TypeAlias = tuple[str, int]
"""Rollout id and fence: identifies an attempt."""

KNOWN_CANDIDATES = 32
"""How many candidates' resources a worker that runs many attempts at once keeps."""


class WorkerSetup(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """First message to a worker."""

    agent: AgentSpec
    store_url: str
    """Of a database, or of a server."""
    store_key: str = ""
    """Key for the server. It comes this way and not by the environment, which is the agent's."""
    gateway: str = ""
    """Address of the server whose gateway the agent's model calls go through; empty for none."""
    timeout_s: float
    memory_bytes: int
    capacity: int = 1
    """Attempts at once in the worker's event loop. With 1 they run one after another, and the whole
    process belongs to each."""
    scratch: str
    """Folder for the worker's own small files."""
    redaction: dict[str, Any] = {}
    """Rules by which a worker without a parent redacts what it stores, as `redaction.Rules` has
    them: a worker that never does so is not to import them."""


class RunAttempt(msgspec.Struct, frozen=True, tag=True):
    """Run this attempt. `resources` is None when the worker knows them: where attempts run one
    after another those of the message before, where many run at once those of the
    KNOWN_CANDIDATES candidates that were sent last."""

    claim: Claim
    resources: dict[str, Resource] | None


class StopAttempt(msgspec.Struct, frozen=True, tag=True):
    """Cancel this attempt: nobody waits for it any more."""

    key: AttemptKey


class OutcomesStored(msgspec.Struct, frozen=True, tag=True):
    """These outcomes are in the store: the worker may forget them."""

    keys: list[AttemptKey]


class WorkerReady(msgspec.Struct, frozen=True, tag=True):
    """The agent is loaded."""


class AgentUnusable(msgspec.Struct, frozen=True, tag=True):
    """The agent does not load in the worker; the worker ends."""

    error: str


class AttemptDone(msgspec.Struct, frozen=True, tag=True):
    """The attempt ended. The worker keeps the outcome until it hears that it is stored."""

    outcome: Outcome


ToWorker: TypeAlias = WorkerSetup | RunAttempt | StopAttempt | OutcomesStored
FromWorker: TypeAlias = WorkerReady | AgentUnusable | AttemptDone

_encode = msgspec.json.Encoder().encode
_to_worker: msgspec.json.Decoder[ToWorker] = msgspec.json.Decoder(ToWorker)
_from_worker: msgspec.json.Decoder[FromWorker] = msgspec.json.Decoder(FromWorker)
decode_to_worker = _to_worker.decode
decode_from_worker = _from_worker.decode


def frame(message: ToWorker | FromWorker) -> bytes:
    """A message with its length in front."""
    body = _encode(message)
    return HEADER.pack(len(body)) + body
