"""Installs the wheels into fresh environments, and improves agents in one with the tool in another.

    python -m tests.packaging.install [PYTHON]

The tool is installed into the Python that is named or the newest on the PATH, the SDK into this one
beside the pinned packages of an older agent. Packages come from the index, the wheels from
`make dist`.
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


def newest_python() -> str:
    """The newest Python on the PATH that starts."""
    for minor in range(20, 11, -1):
        found = shutil.which(f"python3.{minor}")
        if found and not subprocess.run([found, "-c", ""], capture_output=True).returncode:
            return found
    return sys.executable


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


def main() -> None:
    (sdk,) = DIST.glob("agent_ratchet-*.whl")
    (tool,) = DIST.glob("agent_ratchet_tool-*.whl")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch).resolve()
        python = sys.argv[1] if len(sys.argv) > 1 else newest_python()
        print(f"The tool in {python}, the agent in {sys.executable}")
        tools = environment(folder / "tool", python, str(sdk), str(tool))
        environment(folder / "agent", sys.executable, str(sdk), *PINNED)
        with Endpoint(Says(f"It adds them up now.\n\n```python\n{HONEST}```")) as endpoint:
            code = make_project(folder / "code", endpoint.url)
            knobs = build(folder / "knobs", agent=AGENT, config=CONFIG).root
            for project in (code, knobs):
                (project / ".git" / "info" / "exclude").write_text(".venv\n")
                (project / ".venv").symlink_to(folder / "agent")
                improved(tools / "ratchet", project)
        site = next((folder / "agent" / "lib").glob("python*/site-packages"))
        assert not (site / "ratchet" / "cli").exists(), "the tool is in the agent's environment"


if __name__ == "__main__":
    main()
