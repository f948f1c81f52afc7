"""Detect which sandbox levels this machine supports."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

from ratchet.sandbox.inside import landlock, seccomp
from ratchet.sandbox.limits import Level, SandboxUnavailable

_TRY_S = 10.0


def best_level() -> Level:
    """The strongest sandbox level available on this machine; `none` if there is none."""
    if why_no_bubblewrap() == "":
        return "bubblewrap"
    return "landlock" if why_no_landlock() == "" else "none"


def resolve_level(level: Level | str, *, unsafe: bool) -> Level:
    """Resolve a requested level to the level to use.

    Args:
        level: One of the levels, or `auto` for the strongest available.
        unsafe: Run with limits alone where no sandbox is available.

    Raises:
        SandboxUnavailable: It is not available, and `unsafe` is not set.
        ValueError: There is no such level.
    """
    if level not in ("auto", "bubblewrap", "landlock", "none"):
        raise ValueError(f"level must be 'auto', 'bubblewrap', 'landlock' or 'none', not {level!r}")
    if sys.platform != "linux":
        raise SandboxUnavailable(
            "Generated code runs only in a sandbox, and sandboxes need Linux.",
            hint="Run this in a container or on a Linux machine; prompts and params need no "
            "sandbox.",
        )
    if level == "bubblewrap" and (why := why_no_bubblewrap()):
        raise SandboxUnavailable(
            f"The bubblewrap sandbox is not available on this machine: {why}.", hint=_HINT
        )
    if level == "landlock" and (why := why_no_landlock()):
        raise SandboxUnavailable(
            f"The Landlock sandbox is not available on this machine: {why}.", hint=_HINT
        )
    got: Level = best_level() if level == "auto" else level
    if got == "none" and not unsafe:
        raise SandboxUnavailable(
            "Generated code runs only in a sandbox, and this machine has none: "
            f"{why_no_bubblewrap()}; {why_no_landlock()}."
            if level == "auto"
            else "The level 'none' means no sandbox, so it must be allowed explicitly.",
            hint=_HINT,
        )
    return got


_HINT = (
    "Install bubblewrap, or use a kernel with Landlock (5.13 or newer). To run without a sandbox, "
    "set unsafe = true under [sandbox]: the code can then use your files, network and processes."
)


@cache
def why_no_bubblewrap() -> str:
    """Why bubblewrap cannot be used, as a clause; empty if it can."""
    from ratchet.sandbox import bubblewrap
    from ratchet.sandbox.view import file_view

    if sys.platform != "linux":
        return "it needs Linux"
    if bubblewrap.program() is None:
        return "bwrap is not installed"
    if not seccomp.available():
        return "the kernel has no seccomp filters"
    command = [*bubblewrap.command_line(file_view(), scratch_bytes=65_536), sys.executable]
    try:
        completed = subprocess.run(
            [*command, "-I", "-S", "-c", ""],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TRY_S,
            env={},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bwrap cannot be run ({error})"
    printed = completed.stderr.decode(errors="replace").strip().splitlines()
    return (
        ""
        if completed.returncode == 0
        else (printed[-1] if printed else f"bwrap ended with exit code {completed.returncode}")
    )


@cache
def why_no_landlock() -> str:
    """Why Landlock cannot be used, as a clause; empty if it can."""
    if sys.platform != "linux":
        return "it needs Linux"
    if landlock.version() < 1:
        return "the kernel has no Landlock, or it is switched off"
    return "" if seccomp.available() else "the kernel has no seccomp filters"
