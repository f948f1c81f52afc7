"""The interpreter that runs the agent: where it is, and whether the SDK is installed there."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import msgspec

from ratchet._version import PROTOCOL, __version__
from ratchet.sandbox.bounded_run import run_bounded
from ratchet.types import ConfigError

START_TIMEOUT_S = 60.0
"""Seconds that an interpreter may take to start; a cold disk is slow."""

_ENVIRONMENTS = (".venv", "venv", "env")

_ASK = """
import importlib.util, json, runpy, sys
found = importlib.util.find_spec("ratchet")
version, protocol = "", 0
if found is not None and found.origin:  # not imported: one of its dependencies may be missing
    names = runpy.run_path(found.origin.replace("__init__.py", "_version.py"))
    version, protocol = names["__version__"], names.get("PROTOCOL", 0)
prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
print(json.dumps({"executable": sys.executable, "python": list(sys.version_info[:2]),
    "prefix": sys.prefix, "prefixes": sorted(prefixes),
    "path": [each for each in sys.path if each], "sdk": version, "protocol": protocol,
    "pip": importlib.util.find_spec("pip") is not None}))
"""


class Interpreter(msgspec.Struct, frozen=True):
    """A Python interpreter with its environment."""

    executable: str
    python: tuple[int, int]
    """Its version, such as (3, 12)."""
    prefix: str
    """Folder of its environment."""
    prefixes: tuple[str, ...]
    """Folders with its library and its packages."""
    path: tuple[str, ...]
    """Folders that it imports from."""
    sdk: str
    """Version of the SDK installed there; empty if there is none."""
    protocol: int
    """Number of that SDK's message format; 0 if there is no SDK."""
    pip: bool
    """Whether pip is installed there; environments made by uv lack it."""


def this_interpreter() -> Interpreter:
    """The interpreter of this process."""
    prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    return Interpreter(
        sys.executable,
        sys.version_info[:2],
        sys.prefix,
        tuple(sorted(prefixes)),
        tuple(folder for folder in sys.path if folder),
        __version__,
        PROTOCOL,
        importlib.util.find_spec("pip") is not None,
    )


def find_interpreter(
    root: Path, configured: str | None, environ: Mapping[str, str] = os.environ
) -> Path | None:
    """The agent's own interpreter.

    Args:
        root: The project's folder.
        configured: [agent] python, relative to the project's folder; None if it is not set.
        environ: The environment's variables.

    Returns:
        None for the interpreter of this process.

    Raises:
        ConfigError: There is no such interpreter.
    """
    if configured is not None:
        place = (
            configured
            if os.sep not in configured
            else os.path.join(root, os.path.expanduser(configured))
        )
        executable = shutil.which(place, path=environ.get("PATH"))
        if executable is None:
            raise ConfigError(
                f"[agent] python names {configured!r}, which is not an interpreter.",
                hint='Name an interpreter, such as python = ".venv/bin/python".',
            )
        return _other(Path(executable))
    repository = next(
        (folder for folder in (root, *root.parents) if (folder / ".git").exists()), root
    )
    for folder in dict.fromkeys((root, repository)):
        for name in _ENVIRONMENTS:
            python = folder / name / "bin" / "python"
            if (folder / name / "pyvenv.cfg").is_file() and python.exists():
                return _other(python)
    poetry = shutil.which("poetry", path=environ.get("PATH"))
    if poetry and any((folder / "poetry.lock").is_file() for folder in (root, repository)):
        try:
            answer, _ = _answer([poetry, "env", "info", "--executable", "--no-ansi"], root)
        except (OSError, subprocess.TimeoutExpired) as error:
            late = isinstance(error, subprocess.TimeoutExpired)
            why = (
                f"did not answer within {START_TIMEOUT_S:g} s"
                if late
                else f"does not start: {error}"
            )
            raise ConfigError(
                f"Poetry's environment could not be found: poetry {why}.",
                hint="Name its interpreter: python under [agent] in ratchet.toml.",
            ) from None
        if Path(answer.strip()).is_file():
            return _other(Path(answer.strip()))
    conda = environ.get("CONDA_PREFIX", "")
    if conda and environ.get("CONDA_DEFAULT_ENV") != "base":
        python = Path(conda, "bin", "python")
        if python.exists():
            return _other(python)
    return None


def _other(python: Path) -> Path | None:
    """An interpreter; None if its environment is that of this process."""
    # Not resolved: a virtual environment's interpreter is a link to the one that it was made of.
    own = os.path.realpath(sys.prefix)
    return None if os.path.realpath(python.parent.parent) == own else python.absolute()


@functools.cache
def interpreter_at(python: Path) -> Interpreter:
    """Ask an interpreter about itself, and check that it has the SDK.

    Raises:
        ConfigError: It does not start, is too old, or lacks this version of the SDK.
    """
    complaint = ""
    try:
        answer, complaint = _answer([str(python), "-P", "-c", _ASK])
        interpreter = msgspec.convert(json.loads(answer.splitlines()[-1]), Interpreter)
    except subprocess.TimeoutExpired:
        raise ConfigError(f"{python} did not start within {START_TIMEOUT_S:g} s.") from None
    except (OSError, IndexError, ValueError) as error:
        old = isinstance(error, IndexError) and "-P" in complaint  # which Python 3.11 brought
        raise ConfigError(
            f"{python} is older than Python 3.11." if old else f"{python} does not start: {error}.",
            hint="To improve an agent in an older Python, run it as a program: command under "
            "[agent]."
            if old
            else "Correct python under [agent], or create the environment again.",
        ) from None
    if interpreter.sdk != __version__:
        difference = f"has Ratchet {interpreter.sdk}" if interpreter.sdk else "lacks Ratchet's SDK"
        raise ConfigError(
            f"The agent's interpreter {python} {difference}; this is Ratchet {__version__}.",
            hint=f"Install it there: {install_command(interpreter)}",
        )
    if interpreter.protocol != PROTOCOL:
        raise ConfigError(
            f"The agent's interpreter {python} has a different build of Ratchet {__version__}: "
            f"its message format is {interpreter.protocol}, and that of this build {PROTOCOL}.",
            hint=f"Install this build there: {install_command(interpreter, again=True)}",
        )
    return interpreter


def _answer(command: Sequence[str], cwd: Path | None = None) -> tuple[str, str]:
    """What a program printed, and its standard error; raises what `run_bounded` does."""
    done = run_bounded(command, timeout_s=START_TIMEOUT_S, cwd=cwd)
    return done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def install_command(interpreter: Interpreter, *, again: bool = False) -> str:
    """The command that installs this process's SDK for an interpreter.

    Args:
        interpreter: The interpreter.
        again: Whether it may have another build of the same version.
    """
    sdk = _source() or f"agent-ratchet=={__version__}"
    how = [interpreter.executable, "-m", "pip", "install"]
    how += ["--force-reinstall", "--no-deps"] * again
    if not interpreter.pip:
        how = ["uv", "pip", "install", "--python", interpreter.executable]
        how += ["--reinstall-package", "agent-ratchet"] * again
    return shlex.join([*how, sdk])


def _source() -> str:
    """Path of the checkout or file that this SDK was installed from; empty for an index."""
    try:
        about = importlib.metadata.distribution("agent-ratchet").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:  # found on PYTHONPATH
        return ""
    url = urlsplit(json.loads(about)["url"] if about else "")
    path = url2pathname(url.path) if url.scheme == "file" else ""
    return path if os.path.exists(path) else ""
