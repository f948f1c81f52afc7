"""Which interpreter runs the agent, where nobody names one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ratchet.sandbox import interpreter
from ratchet.sandbox.interpreter import find_interpreter, interpreter_at
from ratchet.types import ConfigError
from tests.waiting import alive, until


def environment(folder: Path, prefix: Path | None = None) -> Path:
    """The interpreter of an environment; with a prefix it is that one by another path."""
    if prefix is not None:
        folder.symlink_to(prefix)
    else:
        (folder / "bin").mkdir(parents=True)
        (folder / "pyvenv.cfg").write_text("")
        (folder / "bin" / "python").symlink_to(sys.executable)
    return folder / "bin" / "python"


def test_the_projects_own_environment_precedes_that_of_its_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    project = tmp_path / "agents" / "bot"
    project.mkdir(parents=True)
    assert find_interpreter(project, None, {}) is None
    above = environment(tmp_path / "venv")
    assert find_interpreter(project, None, {}) == above
    own = environment(project / ".venv")
    assert find_interpreter(project, None, {}) == own
    assert (
        find_interpreter(project, "../../venv/bin/python", {}) == project / "../../venv/bin/python"
    )


def test_the_environment_of_this_process_is_no_other_one(tmp_path: Path) -> None:
    environment(tmp_path / ".venv", Path(sys.prefix))
    assert find_interpreter(tmp_path, None, {}) is None


def test_the_active_conda_environment_is_used_but_its_base_is_not(tmp_path: Path) -> None:
    python = environment(tmp_path / "conda")
    environ = {"CONDA_PREFIX": str(tmp_path / "conda"), "CONDA_DEFAULT_ENV": "bot"}
    project = tmp_path / "project"
    project.mkdir()
    assert find_interpreter(project, None, environ) == python
    assert find_interpreter(project, None, {**environ, "CONDA_DEFAULT_ENV": "base"}) is None


def test_poetry_is_asked_where_the_project_has_its_lock_file(tmp_path: Path) -> None:
    python = environment(tmp_path / "cache" / "env")
    program = tmp_path / "bin" / "poetry"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho {python}\n")
    program.chmod(0o755)
    project = tmp_path / "project"
    project.mkdir()
    environ = {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    assert find_interpreter(project, None, environ) is None
    (project / "poetry.lock").write_text("")
    assert find_interpreter(project, None, environ) == python


def test_a_poetry_that_hangs_is_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interpreter, "START_TIMEOUT_S", 0.5)
    program = tmp_path / "bin" / "poetry"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nsleep 600 & echo $! > {tmp_path}/child\nwait\n")
    program.chmod(0o755)
    (tmp_path / "poetry.lock").write_text("")
    environ = {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    with pytest.raises(ConfigError, match=r"did not answer within 0.5 s.*python under \[agent\]"):
        find_interpreter(tmp_path, None, environ)
    child = int((tmp_path / "child").read_text())
    until(lambda: not alive(child), "the child is alive")


def test_a_poetry_that_does_not_start_is_named(tmp_path: Path) -> None:
    program = tmp_path / "poetry"
    program.write_text("#!/nowhere/python\n")
    program.chmod(0o755)
    (tmp_path / "poetry.lock").write_text("")
    with pytest.raises(ConfigError, match=r"poetry .*does not start"):
        find_interpreter(tmp_path, None, {"PATH": str(tmp_path)})


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("exit 3", "does not start"),
        ("echo 'Unknown option: -P' >&2; exit 2", "is older than Python 3.11"),
        ("echo no JSON", "does not start"),
        ("printf '\\377'", "does not start"),
    ],
)
def test_an_interpreter_that_does_not_start_is_named(
    tmp_path: Path, program: str, said: str
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{program}\n")
    python.chmod(0o755)
    with pytest.raises(ConfigError, match=f"{python} {said}"):
        interpreter_at(python)
