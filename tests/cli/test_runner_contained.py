"""A runner on its own machine: candidates of code are contained, whatever names the agent."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ratchet.cli.runner_executor import RunnerOptions, runner_setup
from ratchet.run.contained import RoutedExecutor
from ratchet.types import Candidate, Claim, Code, Outcome, Rollout
from tests.autopilot.code_project import loaded

AGENT = """
import ratchet

@ratchet.evolve
def double(x: int) -> object:
    return x

@ratchet.agent
def run(x):
    return double(x)
"""

BODIES = {
    "doubles": "return 2 * x",
    "reads secrets": "return open('.env').read()",
    "reads tasks": "return open('tasks.jsonl').read()",
    "hangs": "while True: pass",
}


def outcomes(wanted: RunnerOptions) -> dict[str, Outcome]:
    """What becomes of these bodies of `double`."""

    async def main() -> dict[str, Outcome]:
        plan = runner_setup(wanted, "http://127.0.0.1:9", "")
        try:
            await plan.executor.start()
            found = {}
            for number, (name, body) in enumerate(BODIES.items()):
                code = Code(f"def double(x: int) -> object:\n    {body}\n", "double")
                resources = {"double": code}
                rollout = Rollout(
                    id=f"r{number}",
                    queue="q",
                    candidate_id=Candidate.of(resources).id,
                    task_id="t",
                    input=21,
                )
                found[name] = await plan.executor.execute(Claim(rollout, 1, 1e12), resources)
            return found
        finally:
            await plan.executor.close()
            plan.clean()

    return asyncio.run(main())


@pytest.mark.parametrize("config", ["", '[agent]\nentry = "elsewhere:agent"\n'])
def test_code_candidates_of_an_agent_on_the_command_line_are_contained(
    tmp_path: Path, config: str
) -> None:
    module = f"contained_runner_{'with' if config else 'without'}"
    folder = tmp_path / "agents"
    folder.mkdir()
    (folder / f"{module}.py").write_text(AGENT)
    (tmp_path / ".env").write_text("KEY=secret")
    (tmp_path / "tasks.jsonl").write_text("secret")
    if config:
        (tmp_path / "ratchet.toml").write_text(config)
    wanted = RunnerOptions(
        folder=tmp_path,
        agent=f"{module}:run",
        path=(Path("agents"),),
        executor="inline",
        timeout_s=1.0,
    )
    with loaded(tmp_path):
        found = outcomes(wanted)
    assert (found["doubles"].status, found["doubles"].output) == ("succeeded", 42)
    for name in ("reads secrets", "reads tasks"):
        assert found[name].status == "failed"
        assert "secret" not in found[name].error
    assert found["hangs"].status == "timed_out"


def test_beside_ray_code_candidates_run_on_this_machine(tmp_path: Path) -> None:
    (tmp_path / "contained_beside_ray.py").write_text(AGENT)
    wanted = RunnerOptions(folder=tmp_path, agent="contained_beside_ray:run", ray="local")
    with loaded(tmp_path):
        plan = runner_setup(wanted, "http://127.0.0.1:9", "")
        assert isinstance(plan.executor, RoutedExecutor)
        plan.clean()


def test_where_an_agent_loads_on_the_cluster_alone_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "needs_the_cluster.py").write_text("import no_such_module\n")
    wanted = RunnerOptions(folder=tmp_path, agent="needs_the_cluster:run", ray="local")
    with loaded(tmp_path):
        plan = runner_setup(wanted, "http://127.0.0.1:9", "")
        assert not isinstance(plan.executor, RoutedExecutor)
        assert "candidates with code are refused" in plan.what
        plan.clean()
