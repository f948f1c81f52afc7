"""What `ratchet mcp` starts and leaves to run: watched, stopped, capped, and found again."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client

from ratchet._command_answer import INTERRUPTED, CommandAnswer
from ratchet.server import command_process
from ratchet.server.command_process import wait_for_end
from ratchet.store import Store
from tests.cli.conftest import AGENT, CONFIG, INLINE, MakeProject, Project
from tests.cli.mcp_client import ask, given, refused

GATED = """
import pathlib
import time

BODY = answer


@ratchet.agent
def answer(number):
    with open("calls", "a") as calls:
        calls.write("x")
    while pathlib.Path("calls").stat().st_size > 20 and not pathlib.Path("open").exists():
        time.sleep(0.01)
    return BODY(number)
"""
"""An agent that stops after twenty calls until a file opens the gate."""


def gated(make_project: MakeProject) -> Project:
    agent = AGENT.replace("@ratchet.agent\n", "", 1) + GATED
    project = make_project(agent=agent)
    project.write(".gitignore", "__pycache__/\ncalls\nopen\n")
    project.commit()
    return project


def rollouts_in(project: Project) -> int:
    """How many rollouts the store has."""
    with Store.open(f"sqlite:///{project.root}/.ratchet/ratchet.db") as store:
        return sum(store.rollouts.counts().values())


def is_locked(project: Project, name: str) -> bool:
    """Whether a process holds a lock of the project."""
    descriptor = os.open(project.root / ".ratchet" / "locks" / name, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


async def until_at_work(client: Client, project: Project) -> None:
    """Wait until the agent stands at its gate."""
    calls = project.root / "calls"
    with anyio.fail_after(60):
        while not calls.exists() or calls.stat().st_size <= 20:
            await given(client, "improve_status", wait_s=0.2)


def test_what_one_session_started_is_seen_stopped_and_continued_by_the_next(
    make_project: MakeProject,
) -> None:
    project = gated(make_project)

    async def first(client: Client) -> None:
        started = await given(client, "improve", wait_s=0)
        assert started["data"]["state"] == "running"
        await until_at_work(client, project)

    async def second(client: Client) -> None:
        seen = await given(client, "status")
        assert next(iter(seen["data"])) == "jobs"
        assert seen["data"]["jobs"]["improve"]["state"] == "running"
        waiting = await given(client, "improve_status", wait_s=0)
        assert waiting["data"]["next"] == "improve_status"
        assert any("Baseline" in line for line in waiting["data"]["progress"])
        assert "An improvement is already running" in await refused(client, "improve")
        assert is_locked(project, "improve.lock")
        stopped = await given(client, "improve_cancel")
        assert stopped["data"]["state"] == "cancelled"
        assert "problem" not in stopped
        assert not is_locked(project, "improve.lock")
        assert (await given(client, "improve_status"))["data"]["state"] == "cancelled"
        assert (await given(client, "improve_cancel"))["data"]["state"] == "cancelled"
        paid = rollouts_in(project)
        (project.root / "open").touch()
        ended = await given(client, "improve", wait_s=120)
        assert ended["data"]["outcome"]["verdict"] == "promote"
        calls = (project.root / "calls").stat().st_size
        assert calls <= rollouts_in(project) + paid

    ask(project.root, first)
    ask(project.root, second)
    assert project.git("status", "--porcelain") == ""


def test_a_call_that_the_client_gives_up_ends_its_process(make_project: MakeProject) -> None:
    slow = AGENT + "\n\ndef wait():\n    import os, time\n"
    slow += "    import subprocess, sys\n"
    slow += "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    slow += "    open('pid', 'w').write(f'{os.getpid()} {child.pid}')\n    time.sleep(600)\n"
    slow = slow.replace("    return round(", "    wait()\n    return round(")
    project = make_project(agent=slow)
    pid = project.root / "pid"

    async def conversation(client: Client) -> None:
        async with anyio.create_task_group() as group:

            async def run() -> None:
                await client.call_tool("run", {"input": "1"})

            group.start_soon(run)
            with anyio.fail_after(60):
                while not pid.exists() or len(pid.read_text().split()) < 2:
                    await anyio.sleep(0.05)
            group.cancel_scope.cancel()
        with anyio.fail_after(60):
            while any(_lives(int(number)) for number in pid.read_text().split()):
                await anyio.sleep(0.05)
        assert (await given(client, "status"))["data"]["jobs"] == {}

    ask(project.root, conversation)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize(("cap", "repetitions"), [(150, 1), (200, 3)])
def test_a_number_of_rollouts_holds_for_baseline_learning_and_proof(
    make_project: MakeProject, cap: int, repetitions: int
) -> None:
    # So small a gain that no proof ends early.
    agent = AGENT.replace("KNOBS.aim", "0.59 + KNOBS.aim / 100")
    prove = f"[prove]\nrepetitions = {repetitions}\n"
    project = make_project(agent=agent, config=CONFIG + INLINE + prove, tasks=60)

    async def conversation(client: Client) -> None:
        result = await client.call_tool("improve", {"rollouts": cap, "wait_s": 120})
        text = "".join(getattr(block, "text", "") for block in result.content)
        assert '"state":"ended"' in text or f"of the {cap} rollouts" in text, text

    ask(project.root, conversation)
    assert 0 < rollouts_in(project) <= cap


def test_a_number_of_rollouts_that_can_hold_nothing_is_refused_before_anything_is_spent(
    make_project: MakeProject,
) -> None:
    project = make_project()

    async def conversation(client: Client) -> None:
        said = await refused(client, "improve", rollouts=40, wait_s=60)
        assert "40 rollouts cannot cover the baseline" in said
        assert "Allow at least" in said

    ask(project.root, conversation)
    assert rollouts_in(project) == 0


def test_a_job_that_does_not_heed_an_interrupt_is_ended_by_force(
    make_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ratchet.cli import mcp_jobs

    monkeypatch.setattr(mcp_jobs, "STOP_TIMEOUT_S", 0.5)
    deaf = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    deaf += "open('deaf', 'w').close()\nwhile True:\n    pass\n"
    project = make_project(agent=deaf)
    job = mcp_jobs.Job(project.root, "improve")

    async def stop() -> None:
        job.start(["improve", "--json"])
        while not (project.root / "deaf").exists():
            await asyncio.sleep(0.02)
        await job.stop()

    asyncio.run(asyncio.wait_for(stop(), 60))
    assert not job.running
    assert job.told.interrupted
    assert job.told.error == {"message": "Interrupted.", "code": INTERRUPTED}


def test_a_long_tool_tells_its_progress(make_project: MakeProject) -> None:
    project = make_project(tasks=60)
    said: list[str] = []

    async def progress(number: float, total: float | None, message: str | None) -> None:
        said.append(message or "")

    async def conversation(client: Client) -> None:
        await client.call_tool("improve", {"wait_s": 90}, progress_callback=progress)

    ask(project.root, conversation)
    assert any("Learn" in line for line in said)
    assert all(said)


def test_after_a_silence_what_was_last_said_is_said_again_with_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command_process, "QUIET_S", 0.0)
    told = CommandAnswer()
    told.feed(b'{"progress": "Asking the model"}\n')
    said: list[tuple[int, str]] = []

    async def on_line(number: int, line: str) -> None:
        said.append((number, line))

    ended: Any = iter((True, True, False))
    assert asyncio.run(wait_for_end(told, lambda: next(ended), None, on_line))
    assert said == [(1, "Asking the model"), (2, "Asking the model (0 s)"), (3, said[2][1])]
