"""The agent in an environment of its own, which has the SDK alone, and the tool beside it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ratchet import __version__
from tests.cli.conftest import CONFIG, Project, build
from tests.faults.bad_coach import HONEST, KEY, Says, make_project
from tests.llm.endpoint import Endpoint
from tests.wheels import build_wheel, environment_with

AGENT = """
import sys

import ratchet

KNOBS = ratchet.params("knobs", aim=ratchet.Float(0.0, 0.0, 1.0))


@ratchet.agent
def answer(number):
    tool = [name for name in sys.modules if name.startswith(("ratchet.cli", "ratchet.store"))]
    return {"prefix": sys.prefix, "tool": tool, "near": 1.0 - abs(KNOBS.aim - 0.6)}


@ratchet.evaluator
def closeness(output):
    assert output["prefix"] == sys.prefix
    assert output["tool"] == []
    return output["near"]
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the SDK alone; `make test-lowest` names one."""
    if named := os.environ.get("RATCHET_TEST_SDK"):
        return Path(named).resolve()
    folder = tmp_path_factory.mktemp("sdk")
    environment_with(folder / "venv", build_wheel("sdk", folder))
    return folder / "venv"


def project_with(folder: Path, environment: Path, config: str = CONFIG) -> Project:
    project = build(folder, agent=AGENT, config=config)
    (folder / ".venv").symlink_to(environment)
    project.write(".gitignore", "__pycache__/\n.venv\n")
    project.commit()
    return project


def test_an_agent_is_improved_where_only_the_sdk_is_installed(
    tmp_path: Path, environment: Path
) -> None:
    project = project_with(tmp_path / "project", environment)
    done = project.ratchet("improve", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["verdict"] == "promote"
    where = project.root / ".venv" / "bin" / "python"
    assert f"The agent runs in its own environment, with {where}." in done.stderr


def test_code_evolves_in_the_agents_own_environment(tmp_path: Path, environment: Path) -> None:
    with Endpoint(Says(f"It adds them up now.\n\n```python\n{HONEST}```")) as endpoint:
        root = make_project(tmp_path / "project", endpoint.url)
        (root / ".git" / "info" / "exclude").write_text(".venv\n")
        (root / ".venv").symlink_to(environment)
        done = subprocess.run(
            [sys.executable, "-m", "ratchet", "improve", "--json", "--seed", "7"],
            cwd=root,
            env={**os.environ, "OPENAI_API_KEY": KEY},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["verdict"] == "promote"


def test_what_is_wrong_with_the_agents_interpreter_is_said_before_anything_runs(
    tmp_path: Path, environment: Path
) -> None:
    project = project_with(tmp_path / "project", environment, CONFIG)

    def said(python: str) -> str:
        config = CONFIG.replace("[agent]", f'[agent]\npython = "{python}"', 1)
        project.write("ratchet.toml", config)
        done = project.ratchet("eval")
        assert done.returncode == 2, done.stdout
        assert "Traceback" not in done.stderr
        return " ".join(done.stderr.split())

    assert "names 'nowhere/python', which is not an interpreter" in said("nowhere/python")
    bare = tmp_path / "bare"
    python = environment_with(bare)
    assert f"{python} lacks Ratchet's SDK" in said(str(python))
    install = r"({0} -m pip install|uv pip install --python {0})"
    assert re.search(install.format(python), said(str(python)))
    other = tmp_path / "other"
    shutil.copytree(environment, other, symlinks=True)
    version = next((other / "lib").glob("python*/site-packages/ratchet/_version.py"))
    version.write_text('__version__ = "0.0.9"\n')
    assert f"has Ratchet 0.0.9; this is Ratchet {__version__}" in said(str(other / "bin/python"))
    version.write_text(f'__version__ = "{__version__}"\nPROTOCOL = 0\n')
    another = said(str(other / "bin/python"))
    assert f"has a different build of Ratchet {__version__}: its message format is 0" in another
    assert re.search(install.format(other / "bin/python"), another)
    assert "--force-reinstall --no-deps" in another or "--reinstall-package" in another


def test_what_the_users_code_raises_is_told_as_in_one_environment(
    tmp_path: Path, environment: Path
) -> None:
    project = project_with(tmp_path / "project", environment)
    project.write("agent.py", AGENT.replace('return output["near"]', 'return output["far"]'))
    done = project.ratchet("eval")
    assert "KeyError 'far'. The evaluator is broken" in " ".join(
        (done.stdout + done.stderr).split()
    )
    project.write("agent.py", "import nothing_of_that_name\n")
    done = project.ratchet("eval")
    assert done.returncode != 0
    assert "No module named 'nothing_of_that_name'" in done.stderr
    assert 'agent.py", line 1' in done.stderr
    project.write("agent.py", "import os\n\nos._exit(7)\n")
    done = project.ratchet("eval")
    assert "The agent's interpreter ended with exit code 7" in done.stderr
    assert "Traceback" not in done.stderr
    project.write("agent.py", AGENT.replace("def closeness", "def elsewhere"))
    assert "'agent:closeness' cannot be loaded" in project.ratchet("eval").stderr


def test_the_command_beside_the_agent_hands_over_to_that_of_the_tool(
    tmp_path: Path, environment: Path
) -> None:
    def command(folder: Path, text: str) -> str:
        folder.mkdir(exist_ok=True)
        (folder / "ratchet").write_text(text)
        (folder / "ratchet").chmod(0o755)
        return str(folder)

    def said(*path: str) -> subprocess.CompletedProcess[str]:
        run = [f"{path[0]}/ratchet", "eval", "--json"]
        found = os.pathsep.join((*path, "/usr/bin", "/bin"))
        environ = {**os.environ, "PATH": found}
        return subprocess.run(run, env=environ, capture_output=True, text=True, timeout=60)

    of_sdk = "#!{}/bin/python\nfrom ratchet.__main__ import main\n\nmain()\n"
    beside = command(environment / "bin", of_sdk.format(environment))
    tool = command(tmp_path / "tool", '#!/bin/sh\necho "the tool: $* $RATCHET_HANDED_OVER"\n')
    assert said(beside, tool).stdout == "the tool: eval --json 1\n"
    shutil.copytree(environment, tmp_path / "other", symlinks=True)
    other = command(tmp_path / "other" / "bin", of_sdk.format(tmp_path / "other"))
    for path in ((beside,), (beside, other), (other, beside)):
        done = said(*path)
        assert done.returncode == 1
        assert "pip install 'agent-ratchet[tool]'" in done.stderr
