"""Installs the wheels into fresh environments, and improves agents in one with the tool in another.

    python -m tests.packaging.install [PYTHON]

The tool is installed by `uv tool install`, with the Python that is named or the newest on the PATH;
the SDK into this one beside the pinned packages of an older agent. An agent that is a command gets
no environment. Packages come from the index, the wheels from `make dist`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.cli.conftest import CONFIG, build
from tests.cli.test_two_environments import AGENT
from tests.faults.bad_coach import HONEST, KEY, Says, make_project
from tests.llm.endpoint import Endpoint

DIST = Path(__file__).resolve().parents[2] / "dist"

PINNED = (
    "openai==1.59.9",
    "pydantic==2.7.4",
    "opentelemetry-api==1.27.0",
    "opentelemetry-sdk==1.27.0",
)


ASKS = """
import json, os, urllib.request

task = json.load(open(os.environ["RATCHET_TASK_FILE"]))
said = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": str(task["input"])}]
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    json.dumps({"model": "gpt-4o-mini", "messages": said}).encode(),
    {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"},
)
print(urllib.request.urlopen(request).read().decode())
"""

COMMAND = """
[agent]
command = "python3 agent.py"

[[evaluators]]
use = "exact_match"
"""


def newest_python() -> str:
    """The newest Python on the PATH that starts."""
    for minor in range(20, 11, -1):
        named = shutil.which(f"python3.{minor}")
        asked = [named, "-c", "import sys; print(sys.executable)"] if named else ["false"]
        done = subprocess.run(asked, capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.strip()  # what is on the PATH may be a launcher
    return sys.executable


def tool_of_uv(folder: Path, python: str) -> Path:
    """The command `ratchet` that `uv tool install` makes."""
    uv = [sys.executable, "-m", "uv", "tool", "install", "-q", "--python", python]
    where = {"UV_TOOL_DIR": str(folder / "tools"), "UV_TOOL_BIN_DIR": str(folder / "bin")}
    subprocess.run(
        [*uv, "--find-links", str(DIST), "agent-ratchet[tool]"],
        check=True,
        env={**os.environ, **where},
    )
    return folder / "bin" / "ratchet"


def environment(folder: Path, python: str, *requirements: str) -> Path:
    """The `bin` of a fresh environment with these packages."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "pip"), "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, *requirements], check=True)
    return folder / "bin"


def improved(ratchet: Path, project: Path) -> None:
    """Improve a project, whose agent's environment stands in it as `.venv`."""
    done = subprocess.run(
        [str(ratchet), "improve", "--json", "--seed", "7"],
        cwd=project,
        env={**os.environ, "OPENAI_API_KEY": KEY},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["verdict"] == "promote", found
    assert f"{project}/.venv/bin/python" in done.stderr
    print(f"{project.name}: {found['baseline']} → {found['candidate']}")


def evaluated(ratchet: Path, project: Path, url: str) -> None:
    """Run and evaluate an agent that is a command, with `ratchet` on the PATH."""
    path = f"{ratchet.parent}:{os.environ['PATH']}"
    for command in (["run", "--task", "t1"], ["eval"]):
        done = subprocess.run(
            ["ratchet", *command],
            cwd=project,
            env={**os.environ, "PATH": path, "OPENAI_BASE_URL": url, "OPENAI_API_KEY": KEY},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    print(f"{project.name}: evaluated")


def main() -> None:
    (sdk,) = DIST.glob("agent_ratchet-*.whl")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch).resolve()
        python = sys.argv[1] if len(sys.argv) > 1 else newest_python()
        print(f"The tool in {python}, the agent in {sys.executable}")
        ratchet = tool_of_uv(folder, python)
        environment(folder / "agent", sys.executable, str(sdk), *PINNED)
        with Endpoint(Says(f"It adds them up now.\n\n```python\n{HONEST}```")) as endpoint:
            code = make_project(folder / "code", endpoint.url)
            knobs = build(folder / "knobs", agent=AGENT, config=CONFIG).root
            for project in (code, knobs):
                (project / ".git" / "info" / "exclude").write_text(".venv\n")
                (project / ".venv").symlink_to(folder / "agent")
                improved(ratchet, project)
            command = build(folder / "command", agent=ASKS, config=COMMAND, tasks=30).root
            evaluated(ratchet, command, endpoint.url)
        hidden = {**os.environ, "PATH": f"{folder / 'agent' / 'bin'}:{ratchet.parent}"}
        version = subprocess.run(["ratchet", "--version"], env=hidden, capture_output=True)
        assert version.returncode == 0, version.stderr
        site = next((folder / "agent" / "lib").glob("python*/site-packages"))
        assert not (site / "ratchet" / "cli").exists(), "the tool is in the agent's environment"


if __name__ == "__main__":
    main()
