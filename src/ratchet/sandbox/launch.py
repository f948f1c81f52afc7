"""Start the first process of a sandbox, with a control socket and an output pipe."""

from __future__ import annotations

import marshal
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ratchet.sandbox import bubblewrap
from ratchet.sandbox.inside import command, entry, functions, landlock, zygote
from ratchet.sandbox.inside.process_table import end_session
from ratchet.sandbox.inside.protocol import MARSHAL
from ratchet.sandbox.inside.scratch import remove
from ratchet.sandbox.limits import Level, SandboxFailed
from ratchet.sandbox.relay import RelayAddress, hosts_file
from ratchet.sandbox.view import FileView, landlock_rules

COMPILED = (command, entry, functions, zygote)
"""Imported here so that their bytecode is cached: a sandbox cannot write to the cache."""

_BOOT = Path(__file__).parent / "inside" / "boot.py"
_NAMES = ("/etc/hosts", "/etc/nsswitch.conf")
"""Files that programs use to resolve host names."""
_ALLOWED = frozenset({"PATH", "LANG", "LANGUAGE", "TZ"})
"""Environment variables passed on to sandboxed code, in addition to the locale's."""

_REPRODUCIBLE = {"PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "MALLOC_ARENA_MAX": "2"}
"""Fixed string hashes give sets the same order in every evaluation; few memory arenas, since
each reserves address space.
"""


@dataclass(frozen=True)
class SandboxProcess:
    """The first process of a sandbox."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    """The outer end of the control socket; closing it ends the sandbox."""
    output: int
    """Descriptor of the pipe with what it prints while it runs no request."""
    scratch: str
    """A folder to remove after its end, unless the sandbox removed it; empty for none."""
    level: Level

    def end(self) -> None:
        """End it: at once if the kernel also ends its descendants, else by its own cleanup."""
        self.control.close()
        if self.level == "bubblewrap":
            self.process.kill()

    def ended(self) -> None:
        """Clean up after its first process was killed instead of ending by itself."""
        if self.level != "bubblewrap" and self.process.returncode < 0:
            end_session(self.process.pid)
        if self.scratch:
            remove(self.scratch)


def scrubbed_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of sandboxed code: the allowed variables, and those passed in."""
    inherited = {k: v for k, v in os.environ.items() if k in _ALLOWED or k.startswith("LC_")}
    return {"PATH": os.defpath, **inherited, **(extra or {})}


def start(
    config: dict[str, Any],
    *,
    level: Level,
    view: FileView,
    scratch_bytes: int,
    environ: Mapping[str, str],
    network: str = "none",
    reached: Sequence[RelayAddress] = (),
    python: str = sys.executable,
) -> SandboxProcess:
    """Start the process; the configuration says what it is to do.

    Args:
        config: See `inside.entry`; the rules are added to it. `landlock` is the newest version of
            Landlock to use.
        level: The sandbox level.
        view: The visible files.
        scratch_bytes: Size of its scratch folder.
        environ: Its environment.
        network: See `inside.policy.base`.
        reached: Addresses that it reaches through relay listeners.
        python: Path of the interpreter.

    Raises:
        SandboxFailed: It cannot be started.
    """
    commands = config["mode"] == "command"
    scratch, holder = bubblewrap.SCRATCH, ""
    if level != "bubblewrap":
        holder = tempfile.mkdtemp(prefix="ratchet-sandbox-")
        scratch = os.path.join(os.path.realpath(holder), "scratch")
        os.mkdir(scratch, 0o700)
    ours, theirs = socket.socketpair()
    output, printed = os.pipe()
    settings = {
        "listen": [],
        **config,
        "level": level,
        "scratch": scratch,
        "network": network,
        "landlock": 0 if level == "none" else min(config.get("landlock", 99), landlock.version()),
        "rules": _rules(view, scratch, level, commands)
        + [(path, landlock.READ_ACCESS) for path in _NAMES if reached],
        "ports": config.get("ports", ()) if network in ("none", "relay") else None,
    }
    settings_fd = _file_of(marshal.dumps(settings, MARSHAL))
    fds = [settings_fd]
    words: list[str] = []
    if level == "bubblewrap":
        files = zip(_NAMES, (hosts_file(reached), b"hosts: files\n"), strict=True)
        file_fds = {path: _file_of(content) for path, content in files if reached}
        fds += file_fds.values()
        words = bubblewrap.command_line(
            view,
            scratch_bytes=scratch_bytes,
            network=network == "open",
            commands=commands,
            files=file_fds,
        )
    # -P and -S: only the standard library can be imported; -s: no user site-packages either.
    words += [python, "-s", "-P", "-S", "-B", str(_BOOT)]
    words += [str(theirs.fileno()), str(settings_fd)]
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            env={**_REPRODUCIBLE, **environ},
            cwd="/",
            pass_fds=(theirs.fileno(), *fds),
            start_new_session=True,
        )
    except OSError as error:
        ours.close()
        os.close(output)
        if holder:
            remove(scratch)
        raise SandboxFailed(f"The sandbox cannot be started: {error}.") from None
    finally:
        theirs.close()
        os.close(printed)
        for fd in fds:
            os.close(fd)
    ours.setblocking(False)
    os.set_blocking(output, False)
    return SandboxProcess(process, ours, output, scratch if holder else "", level)


def _rules(view: FileView, scratch: str, level: Level, commands: bool) -> list[tuple[str, str]]:
    if level == "none":
        return []
    own = (bubblewrap.TEMPORARY, bubblewrap.SHARED_MEMORY)
    more = own if commands and level == "bubblewrap" else ()
    rules = landlock_rules(view, scratch, more_write=more)
    if commands and level == "bubblewrap":
        rules.append(("/proc", landlock.READ_ACCESS))  # of its own namespace
    return rules


def _file_of(content: bytes) -> int:
    """A descriptor of an unnamed file, positioned at its start."""
    fd = os.memfd_create("ratchet-sandbox", 0)
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
