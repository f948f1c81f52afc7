"""Handler inside the sandbox: runs an attempt of a rollout with a candidate's code.

Its request holds only what the agent may know: no expected answer, no metadata, no task name. Its
reply is untrusted bytes, which `ContainedExecutor` checks.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import msgspec

from ratchet.bind import SEED_VARIABLE, Binding, bind_process, compiling
from ratchet.observe import capture_rollouts, carry_context, warm_up
from ratchet.types import Claim, Resource, Rollout
from ratchet.worker.agent import Agent, AgentSpec, load_agent
from ratchet.worker.attempt import Recorder, call_alone
from ratchet.worker.environment import BindingFile


class SandboxedAgent(msgspec.Struct, frozen=True, kw_only=True):
    """Setup of the process from which attempts are forked."""

    agent: AgentSpec
    check_returns: bool
    """Whether return values of evolved functions are checked against the source's annotations."""
    import_per_candidate: bool = False
    """Whether each attempt imports the agent itself, with its candidate bound."""


class AttemptRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request to run an attempt."""

    rollout_id: str
    fence: int
    candidate_id: str
    seed: int
    input: Any
    resources: dict[str, Resource]
    timeout_s: float
    files: dict[str, bytes] = {}
    """Content of prompt files with the candidate's texts, by real path."""
    dry: bool = False
    """Whether to do everything except call the agent, to measure the sandbox's overhead."""


class LoadedAgent(msgspec.Struct, frozen=True):
    """The agent, loaded once and shared by all forks, or loaded in each fork."""

    spec: AgentSpec
    agent: Agent | None
    check_returns: bool


_read_request: msgspec.json.Decoder[AttemptRequest] = msgspec.json.Decoder(AttemptRequest)


def prepare(setup: bytes) -> LoadedAgent:
    """Load the agent, once.

    Raises:
        RatchetError: It does not load.
    """
    sandboxed = msgspec.json.decode(setup, type=SandboxedAgent)
    capture_rollouts()
    agent = None
    if not sandboxed.import_per_candidate:
        agent = load_agent(sandboxed.agent)
        agent.declarations  # noqa: B018 - reads sources once, not in each fork
    assert compiling  # imported here rather than in each fork
    carry_context()
    warm_up()
    return LoadedAgent(sandboxed.agent, agent, sandboxed.check_returns)


def handle(loaded: LoadedAgent, body: bytes) -> bytes:
    """Run an attempt; return its outcome as JSON."""
    request = _read_request.decode(body)
    rollout = Rollout(
        id=request.rollout_id,
        queue="",
        candidate_id=request.candidate_id,
        task_id="",
        input=request.input,
        seed=request.seed,
    )
    agent = loaded.agent or _imported(loaded, request)
    recorder = Recorder(agent, Claim(rollout, request.fence, 0.0), request.resources)
    recorder.binding = msgspec.structs.replace(
        recorder.binding, sandboxed=True, check_returns=loaded.check_returns
    )
    os.environ[SEED_VARIABLE] = str(request.seed)
    with asyncio.Runner() as loop, BindingFile(os.getcwd()) as scratch:
        scratch.publish(msgspec.structs.replace(recorder.binding, files=request.files))
        outcome = (
            recorder.succeeded(None)
            if request.dry
            else call_alone(recorder, loop, request.timeout_s)
        )
        return msgspec.json.encode(scratch.judge(outcome))


def _imported(loaded: LoadedAgent, request: AttemptRequest) -> Agent:
    """The agent, imported with the request's candidate bound."""
    bind_process(
        Binding(
            resources=request.resources,
            candidate_id=request.candidate_id,
            seed=request.seed,
            sandboxed=True,
            check_returns=loaded.check_returns,
            files=request.files,
        )
    )
    return load_agent(loaded.spec)
