"""A warm pool: what requests share and do not, and how it ends what goes wrong."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ratchet.sandbox import SandboxFailed, SandboxLimits, SandboxPool, call, function_pool
from tests.waiting import until_async

HERE = Path(__file__).parent
ECHO = "handlers.echo:handle"


def pool(level: str, handler: str = ECHO, **options: Any) -> SandboxPool:
    options.setdefault("slots", 1)
    options.setdefault("limits", SandboxLimits(seconds=20))
    return SandboxPool(
        handler, path=[HERE], level=level, unsafe=level == "none", bare=True, **options
    )


def running(mark: str) -> list[int]:
    """Processes of this machine whose command line holds a mark."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if mark.encode() in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
    return found


@pytest.fixture
def mark(request: pytest.FixtureRequest) -> Iterator[str]:
    """A word that no other process has in its command line; nothing with it may be left."""
    word = f"mark-{os.getpid()}-{abs(hash(request.node.nodeid))}"
    yield word
    until = time.monotonic() + 20
    while running(word) and time.monotonic() < until:  # what was killed takes a moment to go
        time.sleep(0.01)
    assert running(word) == []


async def test_prepare_runs_once_and_requests_share_only_what_it_returned(level: str) -> None:
    async with pool(level, setup=b"hello") as warm:
        answers = [await warm.request(b"state") for _ in range(3)]
    states = [json.loads(answer.body) for answer in answers]
    assert states == [{"setup": "hello", "changed": 1, "prepared": 1}] * 3


async def test_each_request_has_a_fresh_scratch_folder(level: str) -> None:
    async with pool(level) as warm:
        first = json.loads((await warm.request(b"write one")).body)
        second = json.loads((await warm.request(b"write two")).body)
    assert first[1] == second[1] == ["here"]
    assert not os.path.exists(first[0])


async def test_large_bodies_and_answers_arrive_whole(level: str) -> None:
    async with pool(level) as warm:
        body = b"length " + b"x" * 5_000_000
        assert (await warm.request(body)).body == str(len(body)).encode()
        answer = await warm.request(b"answer 5000000")
    assert answer.status == "ok"
    assert answer.body == b"x" * 5_000_000


async def test_what_the_handler_raises_is_told_in_a_line_with_its_traceback(level: str) -> None:
    async with pool(level) as warm:
        answer = await warm.request(b"nonsense")
        text = await warm.request(b"text")
    assert answer.status == "raised"
    assert answer.error == "LookupError: nonsense"
    assert "raise LookupError(word)" in answer.output
    assert "inside/" not in answer.output
    assert (text.status, text.error) == ("raised", "TypeError: the handler returned str, not bytes")


async def test_slots_run_at_the_same_time_and_more_requests_wait(level: str) -> None:
    async with pool(level, slots=2) as warm:
        start = time.monotonic()
        answers = await asyncio.gather(*(warm.request(b"sleep 0.4") for _ in range(4)))
        took = time.monotonic() - start
    assert [answer.status for answer in answers] == ["ok"] * 4
    assert took >= 0.8


async def test_a_request_can_have_limits_of_its_own(level: str) -> None:
    async with pool(level) as warm:
        answer = await warm.request(b"sleep 60", SandboxLimits(seconds=0.2))
        assert (answer.status, answer.error) == ("timed_out", "It did not finish within 0.2 s.")
        assert 0.2 <= answer.seconds < 60
        flooded = await warm.request(b"answer 2000", SandboxLimits(result_bytes=1000))
        assert (flooded.status, flooded.body) == ("flooded", b"")
        assert (await warm.request(b"answer 1000", SandboxLimits(result_bytes=1000))).status == "ok"


async def test_a_cancelled_request_ends_its_processes(level: str, mark: str) -> None:
    async with pool(level) as warm:
        task = asyncio.create_task(warm.request(f"hang {mark}".encode()))
        await until_async(lambda: running(mark))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until_async(lambda: not running(mark))
        assert (await warm.request(b"answer 1")).status == "ok"


async def test_a_request_cancelled_before_it_began_ends_too(level: str, mark: str) -> None:
    async with pool(level) as warm:
        task = asyncio.create_task(warm.request(f"hang {mark}".encode()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(10):
            assert (await warm.request(b"answer 1")).status == "ok"


async def test_processor_time_is_limited_on_its_own(level: str) -> None:
    source = "def f():\n    while True: pass"
    limits = SandboxLimits(seconds=20, cpu_seconds=1)
    called = await call(source, "f", limits=limits, level=level, unsafe=level == "none")
    assert called.status == "timed_out"
    assert called.error == "It used more than 1 s of processor time."


async def test_what_a_request_leaves_running_is_gone_when_it_is_answered(
    level: str, mark: str
) -> None:
    async with pool(level) as warm:
        assert (await warm.request(f"children {mark}".encode())).status == "ok"
        assert running(mark) == []


async def test_closing_ends_requests_that_run(level: str, mark: str) -> None:
    async with pool(level) as warm:
        task = asyncio.create_task(warm.request(f"hang {mark}".encode()))
        await until_async(lambda: running(mark))
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(SandboxFailed, match="is closed"):
        await warm.request(b"state")


async def test_a_zygote_that_dies_is_replaced_and_the_request_says_so(
    level: str, mark: str
) -> None:
    async with pool(level, setup=b"again") as warm:
        task = asyncio.create_task(warm.request(f"hang {mark}".encode()))
        await until_async(lambda: running(mark))
        os.kill(warm._workers[0]._started.process.pid, signal.SIGKILL)  # type: ignore[union-attr]
        answer = await task
        assert answer.status == "crashed"
        assert answer.error.startswith("The sandbox ended during the request: killed by signal 9.")
        assert json.loads((await warm.request(b"state")).body)["setup"] == "again"
        # While it waits, nobody notices, and the next request finds a new one.
        os.kill(warm._workers[0]._started.process.pid, signal.SIGKILL)  # type: ignore[union-attr]
        await until_async(lambda: warm._workers[0]._started.process.poll() is not None)  # type: ignore
        assert (await warm.request(b"state")).status == "ok"


@pytest.mark.parametrize(
    ("setup", "said"),
    [
        (b"raise", r"cannot be loaded in the sandbox: ValueError: no such model\nhalf way"),
        (b"exit", r"did not start: exit code 3"),
        (b"sleep", r"did not finish within 1 s"),
        (b"print", r"did not finish within 1 s"),
        (b"memory", r"MemoryError|did not start|did not finish within 1 s"),
    ],
)
async def test_a_prepare_that_fails_is_told_in_a_sentence(
    level: str, setup: bytes, said: str
) -> None:
    limits = SandboxLimits(memory_bytes=64 * 1024 * 1024)
    with pytest.raises(SandboxFailed, match=said):
        async with pool(
            level, "handlers.broken:handle", setup=setup, start_seconds=1, limits=limits
        ):
            pass


async def test_a_handler_that_is_not_there_is_told(level: str) -> None:
    with pytest.raises(SandboxFailed, match=r"No module named 'handlers\.absent'"):
        async with pool(level, "handlers.absent:handle"):
            pass
    with pytest.raises(SandboxFailed, match="has no attribute 'absent'"):
        async with pool(level, "handlers.echo:absent"):
            pass


async def test_the_environment_is_scrubbed(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    async with pool(level, environment={"GIVEN": "yes"}) as warm:
        seen = json.loads((await warm.request(b"environ")).body)
    assert "OPENAI_API_KEY" not in seen
    assert seen["GIVEN"] == "yes"
    assert seen["HOME"] == seen["TMPDIR"] != os.environ.get("HOME")


async def test_what_is_hidden_cannot_be_read_and_what_is_shown_can(
    containing: str, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    for name in ("agent.py", "tasks.jsonl", ".env", "data/open", "data/closed"):
        (tmp_path / name).write_text(name)
    hide = [tmp_path / "tasks.jsonl", tmp_path / "data" / "closed", tmp_path / "later"]
    async with pool(containing, root=tmp_path, hide=hide) as warm:
        (tmp_path / "later").write_text("made when the sandbox ran already")

        async def read(name: str) -> str:
            answer = await warm.request(f"read {tmp_path / name}".encode())
            return answer.body.decode() if answer.status == "ok" else answer.error.split(":")[0]

        assert await read("agent.py") == "agent.py"
        assert await read("data/open") == "data/open"
        for name in ("tasks.jsonl", ".env", "data/closed", "later"):
            assert await read(name) == "PermissionError", name


LOCKED = """
import os
def f():
    os.makedirs(".0/in")
    os.makedirs("a/b")
    os.mkdir("a/locked", 0)
    os.mkdir("locked", 0)
    os.umask(0o777)
"""


async def test_what_cannot_be_removed_inside_is_removed_outside(
    level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    async with function_pool(slots=1, level=level, unsafe=level == "none") as warm:
        for _ in range(2):
            assert (await call(LOCKED, "f", pool=warm)).status == "ok"
    assert list(tmp_path.iterdir()) == []


STARTER = """
import asyncio, sys
from pathlib import Path
from ratchet.sandbox import SandboxPool

async def main(level, here, mark):
    async with SandboxPool("handlers.echo:handle", path=[here], level=level, unsafe=True, bare=True,
                    slots=1) as warm:
        await warm.request(f"hang {mark}".encode())

asyncio.run(main(*sys.argv[1:]))
"""


async def test_nothing_outlives_a_kill_of_the_process_outside(
    level: str, mark: str, tmp_path: Path
) -> None:
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    outside = subprocess.Popen([sys.executable, "-c", STARTER, level, str(HERE), mark], env=environ)
    await until_async(lambda: len(running(mark)) >= 2)
    outside.kill()
    outside.wait()
    await until_async(lambda: not running(mark))
    await until_async(lambda: list(tmp_path.iterdir()) == [])
