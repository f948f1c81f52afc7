"""The services of docs/any-language.md, as they stand there: run, and improved."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ratchet._http import httpx2
from tests.cli.test_any_language import MakeAgent, eventually
from tests.cli.test_any_language import make_agent as make_agent
from tests.cli.test_any_language import upstream as upstream
from tests.free_ports import free_port
from tests.node_packages import installed

HANDBOOK = Path(__file__).parents[2] / "docs" / "any-language.md"
PACKAGES = Path(__file__).parents[1] / "agents" / "any_language"


def example(name: str) -> str:
    """A program of the handbook, by the name in its first line."""
    found = re.search(rf"```\w+\n(?:#|//) {re.escape(name)}\n(.*?)```", HANDBOOK.read_text(), re.S)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("language", ["FastAPI", "Express"])
@pytest.mark.xdist_group("node")
@pytest.mark.long
def test_the_handbooks_service_is_improved(
    make_agent: MakeAgent, tmp_path: Path, language: str
) -> None:
    port, gateway = free_port(), free_port()
    folder = tmp_path / "service"
    folder.mkdir()
    command: Sequence[str]
    if language == "FastAPI":
        (folder / "service.py").write_text(example("service.py"))
        command = [sys.executable, "-m", "uvicorn", "service:app", "--port", str(port)]
    else:
        packages = installed(PACKAGES)
        (folder / "service.mjs").write_text(example("service.mjs"))
        (folder / "node_modules").symlink_to(packages / "node_modules")
        command = ["node", "service.mjs"]
    environ = {
        **os.environ,
        "PORT": str(port),
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": f"http://127.0.0.1:{gateway}/gateway/shop/openai/v1",
    }
    service = subprocess.Popen(
        command, cwd=folder, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    agent = f'url = "http://127.0.0.1:{port}/answer"\nname = "shop"'
    project = make_agent(agent, port=gateway)
    text = (project.root / "ratchet.toml").read_text()
    project.write("ratchet.toml", text.replace('"exact_match"', '"contains"\nignore_case = false'))
    project.commit()
    try:
        assert eventually(lambda: listens(port), 60)
        found: Any = project.json("improve")
        assert (found["verdict"], found["active"]) == ("promote", "shop")
    finally:
        service.terminate()
        service.wait(30)


def listens(port: int) -> bool:
    """Whether an HTTP server answers there."""
    try:
        httpx2.get(f"http://127.0.0.1:{port}/", timeout=5)
    except httpx2.HTTPError:
        return False
    return True
