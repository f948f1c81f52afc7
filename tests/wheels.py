"""Wheels of this checkout, and environments that have them."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

PARTS = {"sdk": ROOT, "tool": ROOT / "tool"}
"""Folder of each part's pyproject.toml."""


def build_wheel(part: str, folder: Path) -> Path:
    """Build a part's wheel into a folder."""
    into = folder / part
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)]
    # The page is built with Node and packages; `make test-dashboard` looks for it in the wheel.
    env = {**os.environ, "RATCHET_SKIP_DASHBOARD": "1"}
    done = subprocess.run(
        build, cwd=PARTS[part], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return next(into.glob("*.whl"))


def environment_with(folder: Path, *wheels: Path) -> Path:
    """The Python of a new environment that has wheels, and this one's packages of others."""
    venv.create(folder, with_pip=False)
    paths = sysconfig.get_paths(vars={"base": str(folder), "platbase": str(folder)})
    site = Path(paths["purelib"])
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    # As lines they are no site folders: the editable install of this checkout stays out.
    others = [each for each in sys.path if Path(each).name == "site-packages"]
    (site / "others.pth").write_text("\n".join(others) + "\n")
    return folder / "bin" / "python"
