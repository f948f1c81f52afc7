"""A site: an agent's repository with a remote at a forge, a server with its autopilot, traffic."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests import interpreters
from tests.repositories import git
from tests.ship.forges.fake_github import REPOSITORY, FakeGitHub

from ratchet.store import Store
from ratchet.types import Cycle

TRAFFIC = """
import itertools, json, random, sys, time
import ratchet
ratchet.init()
from {module} import answer

with open(sys.argv[1]) as file:
    questions = [json.loads(line)["input"] for line in file]
random.Random(int(sys.argv[2])).shuffle(questions)
for question in itertools.cycle(questions):
    answer(question)
    time.sleep({pause_s})
"""

POLICY = """
[agent]
entry = "{entry}"

[autopilot]
evaluator = "{evaluator}"
poll_s = 0.3
wait_s = 1.0
min_traces = {tasks}
window = {tasks}
min_tasks = 60
max_tasks = {tasks}
cooldown_hours = 0

[live]
mirror = true
per_minute = 6000

[watch]
outcomes = 2000
reference = 100

[ship]
forge = "github"
repository = "{repository}"
api_url = "{api_url}"
"""


class Site:
    """Everything that one unattended agent needs; `stop` ends its processes.

    Args:
        folder: An empty folder.
        store_url: Its store.
        make_agent: Writes the agent into the repository's folder, without `ratchet.toml`.
        entry: The agent's entry.
        evaluator: The evaluator's name.
        settings: More of `ratchet.toml`.
        questions: A file of live inputs, JSON lines.
        tasks: How many tasks are captured.
        pause_s: Seconds between two live calls.
    """

    def __init__(
        self,
        folder: Path,
        store_url: str,
        make_agent: Callable[[Path], None],
        *,
        entry: str,
        evaluator: str,
        settings: str,
        questions: Path,
        tasks: int,
        pause_s: float,
    ) -> None:
        self.root, bare = folder / "project", folder / "remote.git"
        self.root.mkdir(parents=True)
        make_agent(self.root)
        git(folder, "init", "-q", "--bare", "-b", "main", str(bare))
        self.forge = FakeGitHub(bare)
        policy = POLICY.format(
            entry=entry,
            evaluator=evaluator,
            tasks=tasks,
            repository=REPOSITORY,
            api_url=self.forge.url,
        )
        (self.root / "ratchet.toml").write_text(policy + settings)
        (self.root / ".gitignore").write_text("__pycache__/\n.ratchet/\n")
        git(self.root, "init", "-q", "-b", "main")
        git(self.root, "config", "user.name", "t")
        git(self.root, "config", "user.email", "t@t.invalid")
        git(self.root, "add", "-A")
        git(self.root, "commit", "-q", "-m", "agent")
        git(self.root, "remote", "add", "origin", str(bare))
        git(self.root, "push", "-q", "origin", "main")
        self.agent = entry.replace(":", "-")
        self.questions = questions
        self.script = TRAFFIC.format(module=entry.partition(":")[0], pause_s=pause_s)
        self.environ = {
            **os.environ,
            "RATCHET_STORE": store_url,
            "GITHUB_TOKEN": self.forge.token,
            "PYTHONPATH": os.pathsep.join([str(self.root), os.environ.get("PYTHONPATH", "")]),
        }
        self.log = folder / "server.log"
        self.store = Store.open(store_url)
        self.port = 0
        self.server = self._start_server()
        self.traffic: subprocess.Popen[str] | None = None
        self.deployed = 0

    def _start_server(self) -> subprocess.Popen[str]:
        options = ["--autopilot", "--port", str(self.port), "--json"]
        command = [sys.executable, "-m", "ratchet", "serve", *options]
        with self.log.open("a") as log:
            process = interpreters.Interpreter(
                command, cwd=self.root, env=self.environ, stdout=subprocess.PIPE, stderr=log
            )
        assert process.stdout is not None
        self.url = str(json.loads(process.stdout.readline())["url"])
        self.port = int(self.url.rpartition(":")[2])
        return process

    def crash(self) -> None:
        """Kill the server, and start it again at the same address."""
        self.server.kill()
        self.server.communicate()
        self.server = self._start_server()

    def deploy(self) -> None:
        """Start the live agent with the source as it is now."""
        if self.traffic is not None:
            self.traffic.kill()
            self.traffic.communicate()
        self.deployed += 1
        environ = {
            k: v for k, v in self.environ.items() if k not in ("RATCHET_STORE", "GITHUB_TOKEN")
        }
        self.traffic = interpreters.Interpreter(
            [sys.executable, "-c", self.script, str(self.questions), str(self.deployed)],
            cwd=self.root,
            env={**environ, "RATCHET_URL": self.url},
        )

    def merge(self, cycle: Cycle) -> None:
        """Merge a cycle's request at the forge, as a person would, and pull."""
        (request,) = [each for each in self.forge.requests if each.state == "open"]
        assert cycle.request.endswith(f"/pull/{request.number}")
        git(self.root, "fetch", "-q", "origin")
        git(self.root, "merge", "-q", "--no-ff", "-m", "merged", f"origin/{request.branch}")
        git(self.root, "push", "-q", "origin", "main")
        request.state, request.merged = "closed", True

    def wait_for(self, condition: Callable[[Cycle], bool], seconds: float) -> Cycle:
        """Wait until the newest cycle fulfils a condition."""
        deadline = time.monotonic() + seconds
        newest = None
        while time.monotonic() < deadline:
            newest = next(iter(self.store.cycles.list(limit=1)), None)
            if newest is not None and condition(newest):
                return newest
            assert self.server.poll() is None, self.log.read_text()
            assert self.traffic is None or self.traffic.poll() is None
            time.sleep(0.1)
        raise AssertionError(f"Not within {seconds} s: {newest}\n{self.log.read_text()[-4000:]}")

    def path(self, cycle: Cycle) -> list[str]:
        """The states that a cycle went through."""
        return [move.target for move in self.store.cycles.transitions(cycle.id)]

    def stop(self) -> None:
        """End everything."""
        if self.traffic is not None:
            self.traffic.kill()
            self.traffic.communicate()
        self.server.terminate()
        self.server.communicate(timeout=60)
        self.store.close()
        self.forge.stop()


def active(site: Site) -> Any:
    """Id of the release in effect at run time; empty for the agent's own source."""
    found = site.store.agents.active(site.agent)
    return found.candidate_id if found else ""
