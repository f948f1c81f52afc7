"""Limits of a sandboxed process, and the result of its work."""

from __future__ import annotations

from typing import Literal

import msgspec

from ratchet.types import RatchetError

Level = Literal["bubblewrap", "landlock", "none"]
"""How code is contained: by namespaces and mounts, by rules on its own process, or only by limits.
"""

SandboxStatus = Literal["ok", "raised", "timed_out", "memory", "crashed", "flooded", "refused"]
"""ok: the handler returned. raised: it raised an exception. timed_out, memory: it exceeded that
limit. flooded: it wrote, answered or started too much. crashed: its process ended before it
answered. refused: the sandbox did not run it.
"""

KIB, MIB = 1024, 1024 * 1024


class SandboxUnavailable(RatchetError):
    """No sandbox is available on this machine."""

    exit_code = 2


class SandboxFailed(RatchetError):
    """A sandbox could not be started, or its imports or preparation failed."""

    exit_code = 3


class SandboxLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one request."""

    seconds: float = 10.0
    """Wall time."""
    cpu_seconds: float | None = None
    """Processor time of each process with its threads, in whole seconds; None for what all cores
    provide in `seconds`.
    """
    memory_bytes: int = 512 * MIB
    """Memory in addition to that of the imports: address space of each process, and resident
    memory of all together.
    """
    processes: int = 16
    """Concurrent processes and threads."""
    output_bytes: int = MIB
    """Bytes on standard output and standard error together."""
    scratch_bytes: int = 64 * MIB
    """Bytes in the scratch folder."""
    result_bytes: int = 8 * MIB
    """Bytes returned by the handler."""


class SandboxResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a request."""

    status: SandboxStatus
    body: bytes = b""
    """What the handler returned; empty unless the status is ok."""
    error: str = ""
    """Error message as a sentence; empty if the status is ok."""
    output: str = ""
    """Its output on both streams, up to the limit, including the traceback of an error."""
    seconds: float = 0.0
    """Wall time from request to answer."""
