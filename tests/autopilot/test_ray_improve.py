"""`[run] executor = "ray"`: an improvement on a real Ray cluster, without a server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import interpreters
from tests.free_ports import free_port
from tests.repositories import committed

pytest.importorskip("ray", reason="Ray is not installed")

pytestmark = pytest.mark.xdist_group("ray")

AGENT = """
import ratchet

KNOBS = ratchet.params("knobs", aim=ratchet.Float(0.0, 0.0, 1.0))


@ratchet.agent
def answer(number):
    return round(max(0.0, 1.0 - abs(KNOBS.aim - 0.6)), 6)


@ratchet.evaluator
def closeness(output):
    return output
"""

CONFIG = """
[agent]
entry = "agent_improved_on_ray:answer"

[[evaluators]]
use = "agent_improved_on_ray:closeness"
vouched = true

[improve]
algorithm = "tune"

[improve.options]
max_trials = 4

[[guardrails]]
metric = "latency"
off = true

[run]
executor = "{executor}"
concurrency = 2
"""


OF_RAY = {"RAY_AUTH_MODE": "disabled"}
"""Newer versions of Ray ask for a token, which the home folder of a person holds."""


def make_project(folder: Path, executor: str, more: str = "") -> Path:
    folder.mkdir()
    (folder / "agent_improved_on_ray.py").write_text(AGENT)
    (folder / "ratchet.toml").write_text(CONFIG.format(executor=executor) + more)
    tasks = [json.dumps({"id": f"t{n}", "input": n}) for n in range(240)]
    (folder / "tasks.jsonl").write_text("\n".join(tasks) + "\n")
    return committed(folder)


def improve(project: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return interpreters.run(
        [sys.executable, "-m", "ratchet", "improve", "--json"],
        cwd=project,
        env={**os.environ, **OF_RAY, **environ},
    )


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Address of a Ray cluster of two cores, in processes of its own."""
    port = free_port()
    # Ray's sockets need a short path.
    with tempfile.TemporaryDirectory(prefix="ray-") as home:
        head = [
            *(str(Path(sys.executable).with_name("ray")), "start", "--head", "--block"),
            *(f"--port={port}", "--node-ip-address=127.0.0.1", "--num-cpus=2"),
            *("--object-store-memory=80000000", "--include-dashboard=false"),
            f"--temp-dir={home}",
        ]
        environ = {**os.environ, **OF_RAY, "RAY_USAGE_STATS_ENABLED": "0"}
        process = subprocess.Popen(
            head, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environ
        )
        assert process.stdout is not None
        said = ""
        while "Ray runtime started" not in said:
            line = process.stdout.readline()
            assert line, said
            said += line
        yield f"127.0.0.1:{port}"
        process.terminate()
        process.communicate(timeout=60)


@pytest.mark.long
def test_a_run_on_a_cluster_ends_as_on_this_machine(tmp_path: Path, cluster: str) -> None:
    local = improve(make_project(tmp_path / "local", "inline"))
    assert local.returncode == 0, local.stderr
    on_ray = improve(make_project(tmp_path / "ray", "ray"), RAY_ADDRESS=cluster)
    assert on_ray.returncode == 0, on_ray.stderr
    found, expected = (json.loads(done.stdout.splitlines()[-1]) for done in (on_ray, local))
    assert expected["branch"]
    for key in ("run", "candidate_id", "verdict", "pairs", "e_value", "branch"):
        assert found[key] == expected[key], key


@pytest.mark.long
def test_the_configured_address_comes_before_the_environments(tmp_path: Path, cluster: str) -> None:
    project = make_project(tmp_path / "ray", "ray", 'ray_address = "127.0.0.1:1"\n')
    done = improve(project, RAY_ADDRESS=cluster)
    assert done.returncode == 2
    assert "The Ray cluster '127.0.0.1:1' cannot be used" in done.stderr
    assert "ray_address under [run]" in done.stderr


@pytest.mark.long
def test_a_local_model_and_a_cluster_exclude_each_other(tmp_path: Path) -> None:
    from ratchet.autopilot import Project
    from ratchet.autopilot.runner import make_executor
    from ratchet.types import ConfigError
    from ratchet.worker.agent import Agent, AgentSpec

    folder = make_project(tmp_path / "project", "ray")
    text = (folder / "ratchet.toml").read_text()
    (folder / "ratchet.toml").write_text(text.replace("[agent]", '[agent]\nmodel = "local"', 1))
    project = Project.find(folder)
    agent = Agent(AgentSpec(entry="a:b", root=str(folder)), len)
    with pytest.raises(ConfigError, match="exclude each other"):
        make_executor(project, agent, project.prepare_state(), None)
