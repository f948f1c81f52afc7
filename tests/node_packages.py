"""Packages from npm for tests of Node programs: installed as a lock file says, once."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

CACHE = Path(__file__).parents[1] / ".bench" / "node"

OFFLINE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT", "ENETUNREACH")


def node() -> str:
    """The command `node`; the test is skipped where Node is not installed."""
    found = shutil.which("node")
    if found is None or shutil.which("npm") is None:
        pytest.skip("Node is not installed")
    return found


def installed(source: Path) -> Path:
    """A folder with the packages that a program needs.

    A module is looked for in the folders above the program, so put it here or below.

    Args:
        source: The program's folder, with its package.json and package-lock.json.
    """
    node()
    parts = [(source / name).read_bytes() for name in ("package.json", "package-lock.json")]
    folder = CACHE / hashlib.sha256(b"".join(parts)).hexdigest()[:16]
    if (folder / "node_modules").is_dir():
        return folder
    # Made beside it and moved, so that tests that run at once see all of it or nothing.
    fresh = folder.with_name(f"{folder.name}.{os.getpid()}")
    fresh.mkdir(parents=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(source / name, fresh)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(
        command, cwd=fresh, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode and any(word in done.stderr for word in OFFLINE):
        shutil.rmtree(fresh)
        pytest.skip(f"The packages of {source.name} cannot be fetched: npm has no network")
    assert done.returncode == 0, done.stderr
    try:
        fresh.rename(folder)
    except OSError:  # another test was faster
        shutil.rmtree(fresh)
    return folder
