"""Environments of other packages, which a benchmark builds once from the package index."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def bin_of(name: str, *requirements: str) -> Path:
    """The `bin` of an environment with these packages, in .bench/NAME; built if it has others."""
    home = ROOT / ".bench" / name
    stamp, wanted = home / "installed", " ".join(requirements)
    if stamp.exists() and stamp.read_text() == wanted:
        return home / "bin"
    print(f"installing {wanted} into .bench/{name}, once", file=sys.stderr, flush=True)
    shutil.rmtree(home, ignore_errors=True)
    home.parent.mkdir(exist_ok=True)
    beside = Path(sys.executable).with_name("uv")
    uv = shutil.which("uv") or (str(beside) if beside.exists() else None)
    python = str(home / "bin" / "python")
    if uv:
        subprocess.run([uv, "venv", "-q", "--python", sys.executable, str(home)], check=True)
        install = [uv, "pip", "install", "-q", "--python", python]
    else:
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*install, *requirements], check=True)
    stamp.write_text(wanted)
    return home / "bin"
