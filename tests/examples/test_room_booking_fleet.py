"""The room-booking example improved by two runners of a server: the end of a run on one machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import interpreters
from tests.examples.room_booking import EXAMPLE
from tests.repositories import committed
from tests.simulator import Settings, SimulatorThread

CHANGES = {
    # With apo, two runs of one machine may differ too: the order in which proposals end takes part.
    'algorithm = "apo"': 'algorithm = "few_shot"',
    'model = "gpt-6-luna"': 'model = "simulated-coach"',
    "rollouts = 600": "rollouts = 160",
    # The number of rollouts at once takes part in the search, so it is the same in both.
    "concurrency = 16": "concurrency = 8\nserver_concurrency = 8",
}


def make_project(folder: Path) -> Path:
    """A copy of the example in a git repository, with a coach that is a simulator."""
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(".ratchet", "__pycache__"))
    config = folder / "ratchet.toml"
    text = config.read_text()
    for old, new in CHANGES.items():
        assert old in text
        text = text.replace(old, new)
    config.write_text(text)
    return committed(folder)


def environment(simulator: SimulatorThread, label: str) -> dict[str, str]:
    """Without anything of Ratchet or a provider but the simulator."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("RATCHET_", "OPENAI_"))}
    kept |= {"OPENAI_BASE_URL": simulator.base_url(label=label), "OPENAI_API_KEY": "none"}
    return {**kept, "ROOM_BOOKING_MODEL": "simulated-task", "NO_COLOR": "1"}


@contextmanager
def running(
    arguments: list[str], folder: Path, environ: dict[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """A `ratchet` process, ended afterwards."""
    process = interpreters.Interpreter(
        [sys.executable, "-m", "ratchet", *arguments],
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


def improve(folder: Path, environ: dict[str, str], *options: str) -> dict[str, Any]:
    ended = interpreters.run(
        [sys.executable, "-m", "ratchet", "improve", "--json", *options], cwd=folder, env=environ
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def patch(folder: Path, branch: str) -> str:
    diff = ["git", "diff", "main", branch]
    return subprocess.run(diff, cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.mark.long
def test_two_runners_of_a_server_reach_the_decision_and_the_patch_of_one_machine(
    tmp_path: Path,
) -> None:
    here, elsewhere = make_project(tmp_path / "here"), make_project(tmp_path / "elsewhere")
    with SimulatorThread(Settings(seed="1")) as simulator, ExitStack() as stack:
        local = improve(here, environment(simulator, "local"))
        environ = environment(simulator, "fleet")
        serve = ["serve", "--json", "--port", "0", "--store", f"sqlite:///{tmp_path}/server.db"]
        server = stack.enter_context(running(serve, tmp_path, environ))
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        for name in ("first", "second"):
            checkout = tmp_path / name
            shutil.copytree(here, checkout, ignore=shutil.ignore_patterns(".git", ".ratchet"))
            runner = ["runner", "--server", url, "--concurrency", "4"]
            stack.enter_context(running(runner, checkout, environ))
        fleet = improve(elsewhere, environ, "--server", url)
    assert local["branch"]
    for key in ("run", "candidate_id", "verdict", "pairs", "e_value", "branch", "baseline"):
        assert fleet[key] == local[key], key
    assert patch(elsewhere, fleet["branch"]) == patch(here, local["branch"])
