"""The process that holds the agent in its own interpreter: it ends, is ended, and goes on."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ratchet.run import agent_host
from ratchet.run.agent_host import AgentHost, HostedAgent
from ratchet.sandbox.interpreter import Interpreter, this_interpreter
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
        if output == "unsayable":
            raise ValueError("\\ud800")
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


def test_a_reply_that_is_no_json_fails_alone(write_agent: Callable[..., AgentSpec]) -> None:
    spec = write_agent(AGENT)
    host = AgentHost(this_interpreter())
    HostedAgent(host, spec)
    with pytest.raises(AgentError, match="is not JSON"):
        host.ask(judge(spec, "unsayable"), Judged, timeout_s=20.0)
    assert host.ask(judge(spec, "abc"), Judged, timeout_s=20.0).score.value == 1.0
    host.close()


def interpreter_that(does: str, folder: Path) -> Interpreter:
    """An interpreter that does something else than it is told to; `fd` is its socket."""
    program = folder / "python"
    program.write_text(
        f"#!{sys.executable}\nimport os, sys, time\nfd = int(sys.argv[-1])\n{does}\n"
    )
    program.chmod(0o755)
    return msgspec.structs.replace(this_interpreter(), executable=str(program))


@pytest.mark.parametrize(
    ("does", "said"),
    [
        (r"os.write(fd, b'\0\0\0\4none'); time.sleep(600)", "different build of Ratchet's SDK"),
        (r"os.write(fd, b'\0\0'); sys.exit(3)", "ended with exit code 3"),
        (r"os.write(fd, b'\0\0\0\4no'); sys.exit(3)", "ended with exit code 3"),
        ("os.close(fd); time.sleep(600)", "ended with exit code -9"),
    ],
)
def test_what_cannot_be_read_is_told_at_once(
    does: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "close" in does:  # it does not end by itself
        monkeypatch.setattr(agent_host, "END_TIMEOUT_S", 0.2)
    host = AgentHost(interpreter_that(does, tmp_path))
    with pytest.raises(AgentError, match=said):
        host.ask(AgentVersion(), Text, timeout_s=20.0)


def test_a_process_that_reads_nothing_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_host, "SEND_TIMEOUT_S", 1)
    host = AgentHost(interpreter_that("time.sleep(600)", tmp_path))
    with pytest.raises(AgentError, match="has read nothing for 1 s"):
        host.ask(judge(AgentSpec(entry="a:b", root="."), "x" * 10_000_000), Judged)


def test_a_late_reply_is_not_waited_for_where_nothing_is_read(tmp_path: Path) -> None:
    host = AgentHost(interpreter_that("time.sleep(600)", tmp_path))
    request = judge(AgentSpec(entry="a:b", root="."), "x" * 10_000_000)
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        asyncio.run(host.ask_async(request, timeout_s=0.5))
    assert time.monotonic() - begun < agent_host.SEND_TIMEOUT_S / 2


def test_a_request_of_another_build_ends_the_process_with_a_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    class Unheard(msgspec.Struct, frozen=True, tag=True):
        value: int

    host = AgentHost(this_interpreter())
    with pytest.raises(AgentError, match="ended with exit code 1"):
        host.ask(Unheard(1), Text, timeout_s=20.0)  # type: ignore[type-var, arg-type]
    assert "is a different build from the tool" in capfd.readouterr().err
