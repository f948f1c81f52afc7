"""Asks the project's own resolver whether its requirements resolve with the SDK among them.

Nothing is installed and no file of the project is changed. A resolver reads indexes over the
network, so each is bounded in time, and what it does not answer counts as unknown.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ratchet.sandbox.bounded_run import run_bounded
from ratchet.wire.project_files.manifests import PythonManifest
from ratchet.wire.project_files.requirement import PACKAGE

TIMEOUT_S = 90.0
_CALM = {
    "PIP_NO_INPUT": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_RETRIES": "1",
    "PIP_DEFAULT_TIMEOUT": "10",
    "UV_HTTP_TIMEOUT": "10",
    "UV_NO_PROGRESS": "1",
    "POETRY_NO_INTERACTION": "1",
    "POETRY_VIRTUALENVS_CREATE": "false",
}
_PINNED = re.compile(rf"^{PACKAGE}==(\S+)", re.M)
_ADDED = re.compile(rf"Using version [\^~>=]*(\S+) for {PACKAGE}")

_FRAME = re.compile("[\u2570\u2500\u25b6\u251c\u2502\u00d7]")
_ASIDE = re.compile(r"\[?notice|WARNING|hint:")
_WRONG = re.compile(r"ERROR|error|Because|No solution")
_WRONG_MARK = re.compile(r"^(?:ERROR|error):\s*")
_ABSENT = re.compile(
    rf"{PACKAGE} was not found in|No matching distribution found for {PACKAGE}\b.*|"
    rf"Could not find a matching version of package {PACKAGE}"
)


class Unresolved(Exception):
    """The requirements do not resolve with the SDK, or this cannot be found out; the message is a
    clause."""


def resolved_version(root: Path, manifest: PythonManifest, python: Path) -> str:
    """The SDK version that the resolver found together with everything that a manifest declares.

    Args:
        root: The repository.
        manifest: The manifest.
        python: The agent's interpreter.

    Raises:
        Unresolved: There is none, or no resolver answered.
    """
    with tempfile.TemporaryDirectory(prefix="ratchet-resolve-") as folder:
        if manifest.tool == "poetry":
            return _poetry(root, manifest, Path(folder))
        return _pip(root, manifest, python, Path(folder))


def _poetry(root: Path, manifest: PythonManifest, folder: Path) -> str:
    poetry = shutil.which("poetry")
    if poetry is None:
        raise Unresolved("Poetry, which resolves it, is not installed")
    (folder / "pyproject.toml").write_bytes(manifest.data)
    lock = (root / manifest.path).with_name("poetry.lock")
    if lock.is_file():
        shutil.copy(lock, folder)
    process = _ran([poetry, "add", "--lock", "--dry-run", PACKAGE], folder)
    version = _ADDED.search(process.stdout.decode())
    if process.returncode or version is None:
        raise Unresolved(f"Poetry says: {_said(process)}")
    return version[1].rstrip(".")


def _pip(root: Path, manifest: PythonManifest, python: Path, folder: Path) -> str:
    """With uv if it is the project's tool or the environment has no pip, else with pip."""
    path = root / manifest.path
    own: list[Path] = [] if manifest.declared else [path]
    declared = folder / "declared.txt"
    declared.write_text("".join(f"{line}\n" for line in manifest.declared))
    sdk = folder / "sdk.txt"
    sdk.write_text(f"{PACKAGE}\n")
    uv = shutil.which("uv")
    if manifest.path.endswith("pyproject.toml"):
        own = [declared]
    by_uv = uv is not None and (manifest.tool == "uv" or not _has_pip(python))
    name = "uv" if by_uv else "pip"
    resolver = _uv_command(uv or "", python) if by_uv else _pip_command(python)
    process = _ran([*resolver, *_files([*own, sdk], by_uv)], path.parent)
    version = _found(process, by_uv)
    if not process.returncode and version:
        return version
    if _ABSENT.search(_said(process)):
        raise Unresolved(f"no index that {name} uses has a version of {PACKAGE}")
    alone = _ran([*resolver, *_files(own, by_uv)], path.parent)
    if alone.returncode:
        raise Unresolved(f"it does not resolve even without Ratchet; {name} says: {_said(alone)}")
    raise Unresolved(f"with {PACKAGE} it does not resolve; {name} says: {_said(process)}")


def _uv_command(uv: str, python: Path) -> list[str]:
    options = ["--quiet", "--no-header", "--no-annotate", "--python", str(python)]
    return [uv, "pip", "compile", *options]


def _pip_command(python: Path) -> list[str]:
    if not _has_pip(python):
        raise Unresolved(f"neither uv nor pip for {python} is installed")
    options = ["--dry-run", "--ignore-installed", "--quiet", "--report", "-"]
    return [str(python), "-m", "pip", "install", *options]


def _files(files: Sequence[Path], by_uv: bool) -> list[str]:
    return [part for file in files for part in (() if by_uv else ("-r",)) + (str(file),)]


def _has_pip(python: Path) -> bool:
    command = [str(python), "-c", "import pip"]
    return not _ran(command, Path("/")).returncode


def _found(process: subprocess.CompletedProcess[bytes], by_uv: bool) -> str:
    """The SDK's version in a resolver's answer."""
    if by_uv:
        pinned = _PINNED.search(process.stdout.decode())
        return pinned[1] if pinned else ""
    try:
        installs = json.loads(process.stdout)["install"]
        packages = {part["metadata"]["name"]: part["metadata"]["version"] for part in installs}
    except (ValueError, KeyError, TypeError):
        return ""
    names = {re.sub(r"[-_.]+", "-", name).lower(): name for name in packages}
    return str(packages[names[PACKAGE]]) if PACKAGE in names else ""


def _ran(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Run a command with a time limit, and end it with all that it started.

    Raises:
        Unresolved: It cannot be started, or took too long.
    """
    name = Path(command[0]).name
    try:
        return run_bounded(command, timeout_s=TIMEOUT_S, cwd=folder, env={**_CALM, **os.environ})
    except OSError as error:
        raise Unresolved(f"{name} cannot be started: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise Unresolved(f"{name} did not answer within {TIMEOUT_S:.0f} s") from None


def _said(process: subprocess.CompletedProcess[bytes]) -> str:
    """A resolver's error on one line."""
    text = (process.stderr or process.stdout).decode(errors="replace")
    lines = (_FRAME.sub("", line).strip() for line in text.splitlines())
    telling = [line for line in lines if line and not _ASIDE.match(line)]
    first = next((at for at, line in enumerate(telling) if _WRONG.match(line)), 0)
    message = " ".join(_WRONG_MARK.sub("", line) for line in telling[first:]) or "nothing"
    return message[:300].rstrip(".")
