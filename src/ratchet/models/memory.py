"""Memory that a model needs, and memory that this process may still use."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

OVERHEAD = 256 * 1024 * 1024
"""Bytes for the engine itself and for the intermediate results of a batch."""


def bytes_needed(file_bytes: int, cache_bytes_per_token: int, tokens: int) -> int:
    """Bytes that a model needs: its weights, the engine, the conversations in its slots, and the
    same amount again for earlier conversations.

    Args:
        file_bytes: Size of the model's file.
        cache_bytes_per_token: Of `GgufHeader`.
        tokens: Tokens of all slots together.
    """
    return file_bytes + 2 * cache_bytes_per_token * tokens + OVERHEAD


def bytes_available(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that are free on this machine and within this process's control group.

    Without /proc (macOS) it is the physical memory.

    Args:
        proc: Mount point of procfs.
        cgroup: Mount point of the control groups, version 2.
    """
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError, KeyError):
        free = 1024 * int(_table(proc / "meminfo")["MemAvailable:"])
    with contextlib.suppress(OSError, ValueError, KeyError):
        group = cgroup / (proc / "self/cgroup").read_text().strip().partition("::/")[2]
        limit = int((group / "memory.max").read_text())  # "max" is not a number
        free = min(free, limit - int(_table(group / "memory.stat")["anon"]))
    return free


def _table(path: Path) -> dict[str, str]:
    return dict(line.split()[:2] for line in path.read_text().splitlines())


def as_megabytes(count: int) -> str:
    """A number of bytes as text, in megabytes."""
    return f"{count / 1e6:,.0f} MB"
