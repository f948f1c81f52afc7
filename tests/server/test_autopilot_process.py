"""The autopilot beside a server: started again when it ends, and never without its server."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ratchet.server import autopilot_process
from ratchet.server.autopilot_process import AutopilotProcess
from tests.waiting import until_async

# Writes its process id, and waits until its input ends.
CHILD = """
import os, sys
with open(sys.argv[1], "a") as file:
    file.write(f"{os.getpid()}\\n")
sys.stdin.read()
with open(sys.argv[1], "a") as file:
    file.write("stopped\\n")
"""

HOLDER = """
import asyncio, os, sys
from ratchet.server.autopilot_process import AutopilotProcess

async def main():
    await AutopilotProcess(sys.argv[1:], os.environ).start()
    await asyncio.sleep(600)

asyncio.run(main())
"""


def command(told: Path) -> list[str]:
    return [sys.executable, "-c", CHILD, str(told)]


def lines(told: Path) -> list[str]:
    return told.read_text().splitlines() if told.exists() else []


def test_it_is_started_again_when_it_ends_and_stops_in_order_with_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autopilot_process, "MIN_RESTART_PAUSE_S", 0.01)
    told = tmp_path / "told"

    async def work() -> None:
        process = AutopilotProcess(command(told), os.environ)
        await process.start()
        await until_async(lambda: len(lines(told)) == 1)
        os.kill(int(lines(told)[0]), signal.SIGKILL)
        await until_async(lambda: len(lines(told)) == 2)
        await process.close()

    asyncio.run(work())
    first, second, last = lines(told)
    assert (first != second, last) == (True, "stopped")


def test_it_stops_when_its_server_is_killed(tmp_path: Path) -> None:
    told = tmp_path / "told"
    server = subprocess.Popen([sys.executable, "-c", HOLDER, *command(told)])
    try:
        asyncio.run(until_async(lambda: len(lines(told)) == 1))
    finally:
        server.kill()
        server.wait()
    asyncio.run(until_async(lambda: lines(told)[1:] == ["stopped"]))
