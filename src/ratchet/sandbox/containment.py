"""Contains the user's own agent: it may read most files, but affects only what it is allowed to.

Its files are copies when it writes to them, its network leads to the allowed hosts alone, and it
starts the allowed programs alone. What it tries beyond that is refused by the system, and named.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from ratchet.sandbox.acts import ActReader, keeper_process
from ratchet.sandbox.containable import (
    BWRAP,
    ContainedLevel,
    contained_level,
    why_no_mounts,
    why_no_namespaces,
    why_no_supervision,
)
from ratchet.sandbox.contained import Contained
from ratchet.sandbox.egress import Led, lay_folders, led_by_variables
from ratchet.sandbox.executables import executables
from ratchet.sandbox.inside import landlock
from ratchet.sandbox.inside.mounts import ACCELERATORS
from ratchet.sandbox.limits import Level
from ratchet.sandbox.view import FileView, landlock_rules
from ratchet.source.secret_files import HOME_NAMES

__all__ = [
    "AgentContainment",
    "Allowance",
    "contained_level",
    "why_no_mounts",
    "why_no_namespaces",
    "why_no_supervision",
]

_TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - it gets copies of them
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - it is its own
_OWN_FOLDERS = ("TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
_TEMPORARY_VARIABLES = ("TMPDIR", "TMP", "TEMP", "XDG_RUNTIME_DIR")
_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy"})


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent may do beyond its own process."""

    hosts: tuple[tuple[str, int], ...] = ()
    """Names or addresses with ports; `*.example.com` for all names below it. A path with port 0 is
    a unix socket."""
    programs: tuple[str, ...] = ()
    """Names on the PATH, or paths."""
    folders: tuple[str, ...] = ()
    """Absolute paths of folders and files where it writes to the originals, not to copies."""
    absent: tuple[str, ...] = ()
    """Absolute paths that must not exist when it starts, if their folders are copied."""


class AgentContainment:
    """The containment of one agent's processes.

    Args:
        allowed: What it may do beyond its own process.
        root: The project's folder.
        python: Its interpreter, which it may start.
        writable: Folders that it really writes to besides, such as one for its outcomes.
        hidden: Further paths that it cannot read.
        rehearses: It runs as its owner would run it, to see what it does: it can read the owner's
            settings and keys and start any program, and its acts include those that it starts.
        level: `auto` for the strongest that this machine has.
        newest: The newest version of Landlock to use, to test the behaviour of older kernels.

    Raises:
        SandboxUnavailable: This machine has none.
    """

    def __init__(
        self,
        allowed: Allowance,
        *,
        root: Path,
        python: str = "",
        writable: Sequence[str | Path] = (),
        hidden: Sequence[str | Path] = (),
        rehearses: bool = False,
        level: Level | str = "auto",
        newest: int = 99,
    ) -> None:
        self.level: ContainedLevel = contained_level(level)
        self._allowed = allowed
        self._root = os.path.realpath(root)
        self._python = python or sys.executable
        self._folders = [os.path.realpath(path) for path in (*allowed.folders, *writable)]
        self._hidden = [os.path.realpath(path) for path in hidden]
        self._rehearses = rehearses
        self._newest = newest

    def start(
        self,
        command: Sequence[str],
        *,
        hosts: Sequence[tuple[str, int]] = (),
        writable: Sequence[str | Path] = (),
        given: Mapping[str, str] = MappingProxyType({}),
        taken: Mapping[str, str] = MappingProxyType({}),
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        **options: Any,
    ) -> Contained | Led:
        """Start a program; `Contained.opened` must then be awaited.

        Args:
            command: Program and arguments.
            hosts: Further hosts that it may reach, such as the gateway.
            writable: Further folders that it really writes to.
            given: Files that it reads and writes instead of those in its copies, by their places.
            taken: Where files go that it writes in its copies, by their places; it starts without
                them.
            cwd: Its working folder.
            env: Its whole environment; that of this process when left out.
            pass_fds: Descriptors that it inherits.
            options: As of `subprocess.Popen`.

        Raises:
            OSError: Its keeper cannot be started.
        """
        inherited = os.environ if env is None else env
        # Its connections are relayed, and those of the relay go through the proxy.
        environ = {name: inherited[name] for name in inherited if name.lower() not in _PROXIES}
        place = os.path.realpath(os.getcwd() if cwd is None else cwd)
        base = os.path.realpath(tempfile.mkdtemp(prefix="ratchet-contained-"))
        if self.level == "variables":
            return self._led(command, base, environ, hosts, cwd=cwd, pass_fds=pass_fds, **options)
        programs = [command[0], self._python, *self._allowed.programs]
        path = environ.get("PATH", os.defpath)
        files, executable = ([], None) if self._rehearses else executables(programs, place, path)
        mounts = self.level == "bubblewrap"
        folders = [*self._folders, *(os.path.realpath(path) for path in writable)]
        folders = [path for path in folders if os.path.exists(path)]
        copies = _copies(self._root, folders, environ) if mounts else []
        hidden = self._hides([*copies, base, place])
        acts = ActReader()
        config = {
            "mode": "contain",
            "level": self.level,
            "entered": False,
            "landlock": self._newest,
            "command": [os.fspath(word) for word in command],
            "cwd": place,
            "environment": environ if mounts else _without_mounts(environ, base),
            "log": acts.fileno(),
            "descriptors": list(pass_fds),
            "base": base,
            "home": os.path.expanduser("~"),
            "hosts": [*self._allowed.hosts, *hosts],
            "programs": files,
            "any_program": self._rehearses,
            "executable": executable,
            "copies": copies,
            "folders": folders,
            "given": dict(given),
            "taken": dict(taken),
            "hidden": hidden,
            "absent": [path for path in (*self._allowed.absent, *taken) if _within(path, copies)],
            "writable": [*copies, *folders, base, *([_SHARED_MEMORY] if mounts else [])],
            "rules": [] if mounts else _rules(base, folders, hidden),
            "relay": 0,
        }
        relay = None
        if not mounts:
            relay = socket.create_server(("127.0.0.1", 0))
            config["relay"] = relay.getsockname()[1]
        ours, theirs = socket.socketpair()
        before: Sequence[str] = ()
        if mounts and why_no_namespaces(False):
            before = (shutil.which("bwrap") or "bwrap", *BWRAP, "--")
            config["entered"] = True
        try:
            process = keeper_process(
                config,
                [*pass_fds, acts.fileno(), theirs.fileno()],
                control=theirs.fileno(),
                before=before,
                cwd="/",
                **options,
            )
        except OSError:
            ours.close()
            shutil.rmtree(base, ignore_errors=True)
            raise
        finally:
            theirs.close()
        return Contained(process, ours, acts, base, relay)

    def _led(
        self,
        command: Sequence[str],
        base: str,
        environ: Mapping[str, str],
        hosts: Sequence[tuple[str, int]],
        **options: Any,
    ) -> Led:
        listener = socket.create_server(("127.0.0.1", 0))
        lay_folders(base)
        environ = led_by_variables(environ, base, listener.getsockname()[1])
        try:
            process = subprocess.Popen(command, env=environ, **options)
        except OSError:
            listener.close()
            shutil.rmtree(base, ignore_errors=True)
            raise
        return Led(process, base, listener, [*self._allowed.hosts, *hosts])

    def _hides(self, needed: Sequence[str]) -> list[str]:
        """Existing places of secrets, except those that contain something needed."""
        home = os.path.expanduser("~")
        home_secrets = [os.path.realpath(os.path.join(home, name)) for name in HOME_NAMES]
        prefixes = (sys.prefix, sys.base_prefix, os.path.dirname(os.path.dirname(self._python)))
        needed = [*needed, self._root, *map(os.path.realpath, prefixes)]
        secret = [path for path in home_secrets if not _holds(path, [*needed, *self._folders])]
        secret = [] if self._rehearses else secret
        configured = [path for path in self._hidden if not _holds(path, needed)]
        return sorted(path for path in {*secret, *configured} if os.path.exists(path))


def copied_folders(root: str, environ: Mapping[str, str]) -> set[str]:
    """The folders that rollouts get copies of: the project, the home, and temporary folders.

    Args:
        root: The project's folder.
        environ: The environment of the agent.
    """
    copied = [root, os.path.expanduser("~"), *_TEMPORARY]
    copied += [environ[name] for name in _OWN_FOLDERS if environ.get(name)]
    return {os.path.realpath(path) for path in copied if os.path.isdir(path)} - {"/"}


def _copies(root: str, folders: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Folders copied on write: the outermost, and nested ones on other file systems."""
    places = copied_folders(root, environ) - set(folders)
    return sorted(
        (
            path
            for path in places
            if not any(
                _within(path, [outer]) and os.stat(path).st_dev == os.stat(outer).st_dev
                for outer in places - {path}
            )
        ),
        key=lambda path: path.count("/"),
    )


def _rules(base: str, folders: Sequence[str], hidden: Sequence[str]) -> list[tuple[str, str]]:
    """Landlock's rules if files cannot be copies: everything is readable, few folders are
    writable."""
    view = FileView(read=("/",), write=tuple(folders), hide=tuple(hidden))
    names = ("tty", *(name for name in os.listdir("/dev") if name.startswith(ACCELERATORS)))
    return [
        *landlock_rules(view, base),
        *((f"/dev/{name}", landlock.DEVICE_ACCESS) for name in names),
    ]


def _without_mounts(environ: Mapping[str, str], base: str) -> dict[str, str]:
    """Variables for where files cannot be copied: own folders, and name look-ups over TCP."""
    temporary = dict.fromkeys(_TEMPORARY_VARIABLES, f"{base}/tmp")  # noqa: S108 - a folder of its own
    # The name service is reached by a connection, which can be led elsewhere.
    return {**environ, **temporary, "HOME": f"{base}/home", "RES_OPTIONS": "use-vc"}


def _within(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _holds(folder: str, paths: Sequence[str]) -> bool:
    return any(_within(path, [folder]) for path in paths)
