"""Whether and how this machine can contain an agent: each way is tried once with a program."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from typing import Literal

from ratchet.sandbox.acts import ActReader, keeper_process
from ratchet.sandbox.contained import START_TIMEOUT_S
from ratchet.sandbox.executables import executables
from ratchet.sandbox.inside import landlock, protocol
from ratchet.sandbox.limits import Level, SandboxUnavailable

ContainedLevel = Literal["bubblewrap", "landlock", "variables"]
"""An agent is contained by its own namespaces, by rules on its processes, or by variables alone."""

BWRAP = (
    *("--unshare-user", "--unshare-net", "--unshare-pid", "--unshare-ipc", "--cap-add", "ALL"),
    *("--dev-bind", "/", "/", "--proc", "/proc", "--die-with-parent"),
)
"""How bubblewrap makes namespaces for a keeper, which makes the mounts itself."""


def contained_level(level: Level | str) -> ContainedLevel:
    """The level at which an agent is contained.

    Args:
        level: The one asked for; `auto` for the strongest that this machine has. On macOS that is
            `variables`, which stops less.

    Raises:
        SandboxUnavailable: This machine does not have that level, or has none.
    """
    hint = (
        "Install bubblewrap, or use a kernel with Landlock and seccomp (5.14 or newer). To run the"
        " agent uncontained, set unsafe = true under [sandbox]: its rollouts then act for real."
    )
    if level == "variables" or (level == "auto" and sys.platform == "darwin"):
        return "variables"
    reasons = ['level = "none" under [sandbox] switches containment off'] if level == "none" else []
    for name, why_not in (("bubblewrap", why_no_mounts), ("landlock", why_no_supervision)):
        if level in ("auto", name):
            if not (why := why_not()):
                return "bubblewrap" if name == "bubblewrap" else "landlock"
            reasons.append(why)
    raise SandboxUnavailable(
        f"The agent's rollouts cannot be contained on this machine: {'; '.join(reasons)}.",
        hint=hint,
    )


def why_no_mounts() -> str:
    """Why an agent cannot have its own files, network and processes; empty if it can."""
    why = why_no_namespaces(False)
    return why_no_namespaces(True) and why if why else ""


@cache
def why_no_namespaces(bubblewrap: bool) -> str:
    """Why namespaces are not available, directly or through bubblewrap; empty if they are."""
    if sys.platform != "linux":
        return "it needs Linux"
    program = shutil.which("bwrap")
    if bubblewrap and program is None:
        return "bwrap is not installed"
    return _tried("bubblewrap", (program or "", *BWRAP, "--") if bubblewrap else ())


@cache
def why_no_supervision() -> str:
    """Why an agent cannot be contained by Landlock and a supervisor; empty if it can."""
    if sys.platform != "linux":
        return "it needs Linux"
    if landlock.version() < 1:
        return "the kernel has no Landlock, or it is switched off"
    return _tried("landlock", ())


def _tried(level: Level, before: Sequence[str]) -> str:
    """Why a program that does nothing cannot be contained; empty if it can."""
    holder = os.path.realpath(tempfile.mkdtemp(prefix="ratchet-contained-"))
    base, folder = os.path.join(holder, "base"), os.path.join(holder, "copied")
    for path in (base, folder):
        os.mkdir(path)
    acts = ActReader()
    config = {
        "mode": "contain",
        "level": level,
        "entered": bool(before),
        "landlock": 99,
        "command": ["true"],
        "cwd": "/",
        "environment": {"PATH": os.defpath},
        "log": acts.fileno(),
        "descriptors": [],
        "base": base,
        "home": base,
        "hosts": [],
        "programs": executables(["true"], "/", os.defpath)[0],
        "any_program": False,
        "executable": executables(["true"], "/", os.defpath)[1],
        "copies": [folder],
        "folders": [],
        "given": {},
        "taken": {},
        "hidden": [],
        "absent": [],
        "writable": [],
        "rules": [("/", landlock.READ_ACCESS)],
        "relay": 0,
    }
    ours, theirs = socket.socketpair()
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    try:
        process = keeper_process(
            config,
            [acts.fileno(), theirs.fileno()],
            control=theirs.fileno(),
            before=before,
            start_new_session=True,
            **quiet,
        )
        theirs.close()
        ours.settimeout(START_TIMEOUT_S)
        printed = process.communicate(timeout=START_TIMEOUT_S)[1].decode(errors="replace").strip()
        reason = ours.recv(4096)[protocol.HEADER.size :].decode(errors="replace").strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the trial failed ({error})"
    finally:
        ours.close()
        acts.acts()
        acts.close()
        shutil.rmtree(holder, ignore_errors=True)
    if process.returncode == 0:
        return ""
    return acts.failed or reason or (printed.splitlines() or ["it exited immediately"])[-1]
