"""Start the first process of a sandbox, with a socket to it and its output in a pipe."""

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
from ratchet.sandbox.inside.scratch import remove
from ratchet.sandbox.limits import Level, SandboxFailed
from ratchet.sandbox.relay import RelayAddress, hosts_file
from ratchet.sandbox.view import FileView, landlock_rules

COMPILED = (command, entry, functions, zygote)
"""Imported so that their bytecode is written: in a sandbox nothing is, and it starts from it."""

_BOOT = Path(__file__).parent / "inside" / "boot.py"
_NAMES = ("/etc/hosts", "/etc/nsswitch.conf")
"""Where a program looks names of hosts up."""
_ALLOWED = frozenset({"PATH", "LANG", "LANGUAGE", "TZ"})
"""Names of variables that code in a sandbox gets from here, beside those of the locale."""

_REPRODUCIBLE = {"PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "MALLOC_ARENA_MAX": "2"}
"""Sets and dictionaries of strings are ordered alike in every evaluation; few memory arenas, as
each takes address space."""


@dataclass(frozen=True)
class SandboxProcess:
    """The first process of a sandbox."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    """Our end; when it is closed, the sandbox ends."""
    output: int
    """Descriptor of a pipe with what it prints outside of a request."""
    scratch: str
    """A folder to remove when it has ended, if it has not itself; empty when there is none."""
    level: Level

    def end(self) -> None:
        """Have it end: at once where the kernel ends all the rest with it, else by itself."""
        self.control.close()
        if self.level == "bubblewrap":
            self.process.kill()

    def ended(self) -> None:
        """Kill what is left after its first process was killed rather than ended by itself."""
        if self.level != "bubblewrap" and self.process.returncode < 0:
            end_session(self.process.pid)
        if self.scratch:
            remove(self.scratch)


def scrubbed_environment(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of code in a sandbox: what is on the allow-list, and what was given."""
    kept = {k: v for k, v in os.environ.items() if k in _ALLOWED or k.startswith("LC_")}
    return {"PATH": os.defpath, **kept, **(given or {})}


def start(
    config: dict[str, Any],
    *,
    level: Level,
    view: FileView,
    scratch_bytes: int,
    environ: Mapping[str, str],
    network: str = "none",
    reached: Sequence[RelayAddress] = (),
) -> SandboxProcess:
    """Start it. What it is to do stands in the configuration.

    Args:
        config: See `inside.entry`; the rules are added to it. `landlock` is the newest version of
            Landlock to use.
        level: How it is contained.
        view: The files that it sees.
        scratch_bytes: Size of its scratch folder.
        environ: Its environment.
        network: See `inside.policy.base`.
        reached: Addresses that it reaches through listeners of its own.

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
    told = {
        "listen": [],
        **config,
        "level": level,
        "scratch": scratch,
        "network": network,
        "landlock": 0 if level == "none" else min(config.get("landlock", 99), landlock.version()),
        "rules": _rules(view, scratch, level, commands)
        + [(path, landlock.READ) for path in _NAMES if reached],
        "ports": config.get("ports", ()) if network in ("none", "relay") else None,
    }
    written = _file_of(marshal.dumps(told))
    given = [written]
    words: list[str] = []
    if level == "bubblewrap":
        files = zip(_NAMES, (hosts_file(reached), b"hosts: files\n"), strict=True)
        held = {path: _file_of(content) for path, content in files if reached}
        given += held.values()
        words = bubblewrap.command_line(
            view,
            scratch_bytes=scratch_bytes,
            network=network == "open",
            commands=commands,
            files=held,
        )
    # -P and -S: nothing but the standard library can be imported; -s: nor what the user installed.
    words += [sys.executable, "-s", "-P", "-S", "-B", str(_BOOT)]
    words += [str(theirs.fileno()), str(written)]
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            env={**_REPRODUCIBLE, **environ},
            cwd="/",
            pass_fds=(theirs.fileno(), *given),
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
        for fd in given:
            os.close(fd)
    ours.setblocking(False)
    os.set_blocking(output, False)
    return SandboxProcess(process, ours, output, scratch if holder else "", level)


def _rules(view: FileView, scratch: str, level: Level, commands: bool) -> list[tuple[str, str]]:
    if level == "none":
        return []
    own = (bubblewrap.TEMPORARY, bubblewrap.SHARED_MEMORY)
    more = own if commands and level == "bubblewrap" else ()
    made = landlock_rules(view, scratch, more_write=more)
    if commands and level == "bubblewrap":
        made.append(("/proc", landlock.READ))  # of its own namespace
    return made


def _file_of(content: bytes) -> int:
    """A descriptor of a file without a name, at its start."""
    fd = os.memfd_create("ratchet-sandbox", 0)
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
