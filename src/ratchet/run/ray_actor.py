"""What runs in an actor of a Ray cluster: the agent, loaded once, and one attempt at a time."""

from __future__ import annotations

import asyncio
import os
import stat
import tempfile

import msgspec

from ratchet.bind import SEED_VARIABLE, Binding
from ratchet.observe import carry_context, warm_up
from ratchet.run.agent import Agent, AgentSpec, load_agent
from ratchet.run.attempt import Recorder, call_alone
from ratchet.run.binding_file import BindingFile
from ratchet.run.environment import PROVIDER_KEYS, SECRETS, gateway_variables
from ratchet.types import Claim, RatchetError, Resource

_read_claim = msgspec.json.Decoder(Claim).decode
_read_resources: msgspec.json.Decoder[dict[str, Resource]] = msgspec.json.Decoder(
    dict[str, Resource]
)


class RayAgentActor:
    """Loads the agent and runs its attempts; everything goes in and out as JSON.

    Args:
        spec: The agent, as an AgentSpec.
        timeout_s: Seconds that one attempt may take.
        gateway: Address of the server whose gateway model calls go through; empty for none.
    """

    def __init__(self, spec: bytes, timeout_s: float, gateway: str) -> None:
        self._spec = msgspec.json.decode(spec, type=AgentSpec)
        self._timeout_s = timeout_s
        self._gateway = gateway
        self._agent: Agent | None = None
        self._loop = asyncio.Runner()
        self._scratch = BindingFile(_own_folder())

    def load(self) -> str:
        """Load the agent; returns why it does not load, or nothing."""
        hidden = SECRETS | PROVIDER_KEYS if self._gateway else SECRETS
        for name in hidden:
            os.environ.pop(name, None)
        if self._gateway:
            os.environ.update(gateway_variables(self._gateway, None))
        root = os.path.abspath(self._spec.root)
        try:
            self._agent = load_agent(msgspec.structs.replace(self._spec, root=root))
        except RatchetError as error:
            return str(error)
        carry_context()
        warm_up()
        return ""

    def run(self, claim: bytes, resources: bytes) -> bytes:
        """Run an attempt; returns its outcome."""
        assert self._agent is not None
        given, bound = _read_claim(claim), _read_resources.decode(resources)
        rollout = given.rollout
        self._scratch.publish(Binding(resources=bound, candidate_id=rollout.candidate_id))
        os.environ[SEED_VARIABLE] = str(rollout.seed)
        if self._gateway:
            os.environ.update(gateway_variables(self._gateway, given))
        recorder = Recorder(self._agent, given, bound)
        outcome = call_alone(recorder, self._loop, self._timeout_s)
        return msgspec.json.encode(self._scratch.judge(outcome))


def _own_folder() -> str:
    """A folder of this user's alone. It stays: actors are killed, and cannot tidy up."""
    folder = os.path.join(tempfile.gettempdir(), f"ratchet-ray-{os.getuid()}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    found = os.lstat(folder)
    if found.st_uid == os.getuid() and stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077:
        return folder
    return tempfile.mkdtemp(prefix="ratchet-ray-")
