"""The process that holds the agent in its own interpreter: it ends, is ended, and goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ratchet.run.agent_host import AgentHost, HostedAgent
from ratchet.sandbox.interpreter import this_interpreter
from ratchet.types import AgentError, Rollout
from ratchet.worker.agent import AgentSpec
from ratchet.worker.host_messages import AgentVersion, Judged, JudgeRollout, Text

AGENT = """
    import os

    def run(x):
        return x

    def short(output):
        if output == "end":
            os._exit(7)
        return len(output) < 5
"""


def judge(spec: AgentSpec, output: str) -> JudgeRollout:
    use = f"{spec.entry.partition(':')[0]}:short"
    rollout = Rollout(id="r", queue="", candidate_id="", task_id="t", input=1, output=output)
    return JudgeRollout(use, {}, rollout, [])


def test_a_process_that_ends_is_told_and_the_next_one_has_loaded_the_agent(
    write_agent: Callable[..., AgentSpec],
) -> None:
    spec = write_agent(AGENT)
    host = AgentHost(this_interpreter())
    agent = HostedAgent(host, spec)
    version = agent.source_version()
    assert host.ask(judge(spec, "abc"), Judged).score.value == 1.0
    with pytest.raises(AgentError, match="ended with exit code 7"):
        host.ask(judge(spec, "end"), Judged)
    assert host.ask(judge(spec, "abcdef"), Judged).score.value == 0.0
    host.close()
    assert agent.source_version() == version
    host.close()


def test_a_request_that_is_cancelled_holds_up_no_other(
    write_agent: Callable[..., AgentSpec],
) -> None:
    spec = write_agent(AGENT)
    host = AgentHost(this_interpreter())
    HostedAgent(host, spec)
    for _ in range(20):
        host.send(judge(spec, "abc")).cancel()
    for _ in range(3):  # of which the last is answered after the cancelled ones
        assert host.ask(judge(spec, "abc"), Judged, timeout_s=10.0).score.value == 1.0
    assert host.ask(AgentVersion(), Text, timeout_s=10.0).text
    host.close()
