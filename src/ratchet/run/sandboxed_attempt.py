"""What runs inside of the sandbox: an attempt of a rollout with a candidate's code.

It gets what the agent may know and nothing else: no expected answer, no metadata, no task's name.
What it says comes back as bytes, to somebody who does not believe them.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import msgspec

from ratchet.bind import SEED_VARIABLE, compiling
from ratchet.observe import capture_rollouts, carry_context, warm_up
from ratchet.run.agent import Agent, AgentSpec, load_agent
from ratchet.run.attempt import Recorder, call_alone
from ratchet.run.environment import BindingFile
from ratchet.types import Claim, Resource, Rollout


class SandboxedAgent(msgspec.Struct, frozen=True, kw_only=True):
    """What the process that others are forked from is made with."""

    agent: AgentSpec
    check_returns: bool
    """Whether what evolved functions return is compared with the source's annotations."""


class AttemptRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt to run."""

    rollout_id: str
    fence: int
    candidate_id: str
    seed: int
    input: Any
    resources: dict[str, Resource]
    timeout_s: float
    dry: bool = False
    """Do all but call the agent: how long that takes is what the sandbox itself takes."""


class AttemptReply(msgspec.Struct, frozen=True):
    """The agent, loaded."""

    agent: Agent
    check_returns: bool


_ask: msgspec.json.Decoder[AttemptRequest] = msgspec.json.Decoder(AttemptRequest)


def prepare(setup: bytes) -> AttemptReply:
    """Load the agent, once.

    Raises:
        RatchetError: It does not load.
    """
    made = msgspec.json.decode(setup, type=SandboxedAgent)
    capture_rollouts()
    agent = load_agent(made.agent)
    agent.declarations  # noqa: B018 - sources are read here once, and not in each child
    _import_now()
    carry_context()
    warm_up()
    return AttemptReply(agent, made.check_returns)


def _import_now() -> None:
    """What candidates' functions need: a child that imports it would pay for it each time."""
    import typeguard  # noqa: F401

    assert compiling
    assert compiling


def handle(inside: AttemptReply, body: bytes) -> bytes:
    """Run one attempt and say how it ended."""
    ask = _ask.decode(body)
    rollout = Rollout(
        id=ask.rollout_id,
        queue="",
        candidate_id=ask.candidate_id,
        task_id="",
        input=ask.input,
        seed=ask.seed,
    )
    recorder = Recorder(inside.agent, Claim(rollout, ask.fence, 0.0), ask.resources)
    recorder.binding = msgspec.structs.replace(
        recorder.binding, sandboxed=True, check_returns=inside.check_returns
    )
    os.environ[SEED_VARIABLE] = str(ask.seed)
    with asyncio.Runner() as loop, BindingFile(os.getcwd()) as scratch:
        scratch.publish(recorder.binding)
        outcome = recorder.succeeded(None) if ask.dry else call_alone(recorder, loop, ask.timeout_s)
        return msgspec.json.encode(scratch.judge(outcome))
