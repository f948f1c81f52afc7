"""The npm package, built from this checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.node_packages import installed, node

JAVASCRIPT = Path(__file__).parents[2] / "javascript"


def built() -> Path:
    """A folder with the package, where programs below it can import it; the caller deletes it."""
    folder = Path(tempfile.mkdtemp(prefix="copy.", dir=installed(JAVASCRIPT)))
    leave = shutil.ignore_patterns("node_modules", "dist", "tmp-*")
    shutil.copytree(JAVASCRIPT, folder, ignore=leave, dirs_exist_ok=True)
    done = run([node(), "build.mjs"], folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def environment(**changes: str) -> dict[str, str]:
    """Variables of a program: nothing of this machine decides where it sends or with which key."""
    ours = ("RATCHET_", "OPENAI_", "ANTHROPIC_", "OTEL_", "XDG_")
    return {k: v for k, v in os.environ.items() if not k.startswith(ours)} | changes


def run(command: list[str], folder: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        command,
        cwd=folder,
        env=environment(**changes),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def ran(folder: Path, source: str, **changes: str) -> Any:
    """Run a program that may import the package; the JSON of its last line."""
    program = folder / "program.mjs"
    program.write_text(source)
    done = run([node(), program.name], folder, **changes)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
