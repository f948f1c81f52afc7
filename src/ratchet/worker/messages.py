"""Messages between a worker process and its parent, over a socket pair."""

from __future__ import annotations

import struct
from typing import Any, TypeAlias

import msgspec

from ratchet.bind import Binding
from ratchet.types import Claim, Outcome, Resource
from ratchet.worker.agent import AgentSpec

HEADER = struct.Struct("!I")
"""Length of the JSON message that follows. MessagePack has no integers beyond 64 bits."""


OTHER_BUILD = (
    "Ratchet's SDK in the agent's environment is a different build from the tool: reinstall both."
)
"""Used for a message that cannot be read."""

AttemptKey: TypeAlias = tuple[str, int]
"""Rollout id and fence: identifies an attempt."""

KNOWN_CANDIDATES = 32
"""Number of candidates whose resources a worker with concurrent attempts caches."""


class WorkerSetup(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """First message to a worker."""

    agent: AgentSpec
    server: str = ""
    """URL of the server that an orphaned worker sends its outcomes to; empty for none."""
    server_key: str = ""
    """API key for the server. Not in the environment, which the agent can read."""
    gateway: str = ""
    """URL of the server whose gateway serves the agent's model calls; empty for none."""
    import_variables: dict[str, str] = {}
    """Variables that route to the gateway the clients that the agent creates while it is
    imported; these belong to no attempt."""
    timeout_s: float
    memory_bytes: int
    niceness: int = 0
    """How much lower the worker's priority is, as in nice(2)."""
    capacity: int = 1
    """Concurrent attempts in the worker's event loop. With 1 they run one after another, and
    each has the whole process."""
    scratch: str
    """Folder for the worker's binding file."""
    outbox: str
    """Folder in which an orphaned worker leaves its outcomes if there is no server."""
    binding: Binding | None = None
    """The only candidate that the worker serves, bound before the agent is imported; None for a
    worker that serves all."""
    contained: bool = False
    """Whether its working folders are restored for each attempt."""
    redaction: dict[str, Any] = {}
    """`RedactionRules` of an orphaned worker as builtins: other workers need not import them."""


class RunAttempt(msgspec.Struct, frozen=True, tag=True):
    """Run this attempt.

    `resources` is None when the worker has them cached: with a capacity of 1 those of the previous
    message, else those of the last KNOWN_CANDIDATES candidates that were sent.
    """

    claim: Claim
    resources: dict[str, Resource] | None


class StopAttempt(msgspec.Struct, frozen=True, tag=True):
    """Cancel this attempt."""

    key: AttemptKey


class OutcomesStored(msgspec.Struct, frozen=True, tag=True):
    """These outcomes are in the store; the worker may forget them."""

    keys: list[AttemptKey]


class WorkerReady(msgspec.Struct, frozen=True, tag=True):
    """The agent has been loaded."""


class AgentUnusable(msgspec.Struct, frozen=True, tag=True):
    """The agent could not be loaded; the worker ends."""

    error: str


class AttemptDone(msgspec.Struct, frozen=True, tag=True):
    """The attempt ended. The worker retains the outcome until `OutcomesStored` names it."""

    outcome: Outcome


ToWorker: TypeAlias = WorkerSetup | RunAttempt | StopAttempt | OutcomesStored
FromWorker: TypeAlias = WorkerReady | AgentUnusable | AttemptDone

_encode = msgspec.json.Encoder().encode
_to_worker: msgspec.json.Decoder[ToWorker] = msgspec.json.Decoder(ToWorker)
_from_worker: msgspec.json.Decoder[FromWorker] = msgspec.json.Decoder(FromWorker)
decode_to_worker = _to_worker.decode
decode_from_worker = _from_worker.decode


def frame(message: ToWorker | FromWorker) -> bytes:
    """Encode a message, preceded by its length."""
    body = _encode(message)
    return HEADER.pack(len(body)) + body
