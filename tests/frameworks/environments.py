"""Makes a framework's own environment: Ratchet from this checkout, and the pinned packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.frameworks.table import Framework

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".bench" / "frameworks"
OURS = "agent-ratchet["
PATIENCE_S = 900.0


class CannotInstall(Exception):
    """An environment could not be made."""


def python_of(framework: Framework) -> Path:
    """The environment's Python; the environment is made when it is not there.

    Raises:
        CannotInstall: Its packages could not be installed.
    """
    folder = FOLDER / framework.name
    python = folder / "bin" / "python"
    stamp = folder / ".made-of"
    wanted = _made_of(framework)
    if stamp.is_file() and stamp.read_text() == wanted and python.exists():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    uv = shutil.which("uv") or _in_venv("uv")
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    for command in _commands(folder, python, framework, uv):
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
            )
        except subprocess.TimeoutExpired:
            raise CannotInstall(f"not installed within {PATIENCE_S:.0f} s") from None
        if done.returncode:
            last = done.stderr.strip().splitlines()[-3:]
            raise CannotInstall(f"not installed: {' '.join(last)}")
    stamp.write_text(wanted)
    return python


def installer() -> str:
    """What installs, for people."""
    return "uv" if shutil.which("uv") or _in_venv("uv") else "pip"


def _commands(folder: Path, python: Path, framework: Framework, uv: str | None) -> list[list[str]]:
    # With its extras in one requirement: pip does not look for them in an editable one beside it.
    extras = [one.partition("[")[2] for one in framework.packages if one.startswith(OURS)]
    others = [one for one in framework.packages if not one.startswith(OURS)]
    packages = ["-e", str(ROOT) + "".join(f"[{one}" for one in extras), *others]
    if uv:
        return [
            [uv, "venv", "-q", "--python", sys.executable, str(folder)],
            [uv, "pip", "install", "-q", "--python", str(python), *packages],
        ]
    return [
        [sys.executable, "-m", "venv", str(folder)],
        [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages],
    ]


def _in_venv(name: str) -> str | None:
    path = Path(sys.executable).with_name(name)
    return str(path) if path.exists() else None


def _made_of(framework: Framework) -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return "\n".join([str(ROOT), sys.version, *project["dependencies"], *framework.packages])
