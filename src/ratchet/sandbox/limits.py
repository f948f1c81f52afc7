"""How much a sandboxed process may take, and how its work ended."""

from __future__ import annotations

from typing import Literal

import msgspec

from ratchet.types import RatchetError

Level = Literal["bubblewrap", "landlock", "none"]
"""How a sandbox is made: namespaces and mounts; the process's own rules; limits alone."""

SandboxStatus = Literal["ok", "raised", "timed_out", "memory", "crashed", "flooded", "refused"]
"""ok: the handler returned. raised: it raised an exception. timed_out, memory: it took too much.
flooded: it wrote, answered or started too much. crashed: its process ended before it answered.
refused: the sandbox did not run it."""

KIB, MIB = 1024, 1024 * 1024


class SandboxUnavailable(RatchetError):
    """No sandbox can be made here."""

    exit_code = 2


class SandboxFailed(RatchetError):
    """A sandbox could not be started, or what it should import or prepare failed."""

    exit_code = 3


class SandboxLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one request may take."""

    seconds: float = 10.0
    """Of wall time."""
    cpu_seconds: float | None = None
    """Of processor time, of each process with its threads, in whole seconds; None: what all cores
    give in `seconds`."""
    memory_bytes: int = 512 * MIB
    """That it adds to what its imports take: address space of each process, and resident memory
    of all together."""
    processes: int = 16
    """Processes and threads at a time."""
    output_bytes: int = MIB
    """On standard output and standard error together."""
    scratch_bytes: int = 64 * MIB
    """In the scratch folder."""
    result_bytes: int = 8 * MIB
    """Of what the handler returns."""


class SandboxResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a request ended."""

    status: SandboxStatus
    body: bytes = b""
    """What the handler returned; empty unless the status is ok."""
    error: str = ""
    """What went wrong, in a sentence; empty when the status is ok."""
    output: str = ""
    """What it printed, on both streams, up to the limit; the traceback of an error among it."""
    seconds: float = 0.0
    """Wall time from the request to the answer."""
