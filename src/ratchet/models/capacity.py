"""How a model is served: slots, context and threads, from its header, cores and memory."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

from ratchet.models.memory import OVERHEAD, bytes_needed
from ratchet.types.wording import counted

MAX_SLOTS = 4
"""Number of slots if memory allows; measured by `benchmarks/local_models.py`."""

LONG_CONTEXT_TOKENS, CONTEXT_TOKENS, MIN_CONTEXT_TOKENS, CONTEXT_STEP = 8192, 4096, 1024, 256
"""Tokens of a slot if memory is plentiful, and if it suffices; the fewest worth serving; and the
number of which llama.cpp makes it a multiple. Two cores read some 80 tokens a second with a
model of 1.5 billion parameters: a coach gives up before it has read more than the longest."""


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """The slots, context and threads that a model is served with."""

    slots: int
    """Concurrent conversations; further ones wait."""
    context: int
    """Number of tokens in each slot, for prompt and answer together."""
    threads: int
    """Threads that compute."""

    @property
    def tokens(self) -> int:
        """Tokens of all slots together."""
        return self.slots * self.context

    def __str__(self) -> str:
        several = "conversations" if self.slots > 1 else "conversation"
        threads = "threads" if self.threads > 1 else "thread"
        return (
            f"{self.slots} {several} at once, each of at most {counted(self.context, 'token')},"
            f" on {self.threads} {threads}"
        )


def choose_capacity(
    *,
    file_bytes: int,
    cache_bytes_per_token: int,
    trained_context: int,
    cores: int,
    available: int,
    slots: int | None = None,
    context: int | None = None,
    threads: int | None = None,
) -> Capacity:
    """Choose the numbers that are not set: the usual ones, or lower ones if memory is scarce.

    The context is long where all of it takes no more than half of the memory.
    Fewer slots come before a shorter context: what waits is answered later, and what is too long
    is not answered.

    Args:
        file_bytes: Size of the model's files.
        cache_bytes_per_token: Of `GgufHeader`.
        trained_context: Tokens that the model was trained for; 0 for unknown. More are not served.
        cores: Processor cores that may be used.
        available: Bytes of memory that may be used.
        slots: Given by the user.
        context: Given by the user.
        threads: Given by the user.
    """
    long = bytes_needed(
        file_bytes, cache_bytes_per_token, (slots or MAX_SLOTS) * LONG_CONTEXT_TOKENS
    )
    usual = LONG_CONTEXT_TOKENS if 2 * long <= available else CONTEXT_TOKENS
    most = trained_context or CONTEXT_TOKENS
    # As `bytes_needed` counts.
    tokens = (available - file_bytes - OVERHEAD) // max(1, 2 * cache_bytes_per_token)
    wanted = min(context or usual, most)
    fit = max(1, min(MAX_SLOTS, tokens // wanted))
    if context is None:
        room = tokens // (slots or fit) // CONTEXT_STEP * CONTEXT_STEP
        wanted = min(wanted, max(room, MIN_CONTEXT_TOKENS))
    # Two cores compute; of more, half are left to the agent's own processes.
    return Capacity(
        slots=slots or fit,
        context=wanted,
        threads=threads or max(min(cores, 2), cores // 2),
    )


def usable_cores(
    proc: Path = Path("/proc"),
    cgroup: Path = Path("/sys/fs/cgroup"),
    cpus: Path = Path("/sys/devices/system/cpu"),
) -> int:
    """Cores that this process may use, by its affinity and its control group's quota.

    Two hardware threads of a core count once: they share what multiplies.

    Args:
        proc: Mount point of procfs.
        cgroup: Mount point of the control groups, version 2.
        cpus: Folder of the processors in sysfs.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    usable = affinity(0) if affinity else set(range(os.cpu_count() or 1))
    cores = set()
    for number in usable:
        siblings = f"{number}"
        with contextlib.suppress(OSError):
            siblings = (cpus / f"cpu{number}/topology/thread_siblings_list").read_text().strip()
        cores.add(siblings)
    count = len(cores)
    with contextlib.suppress(OSError, ValueError):  # "max" is not a number
        group = cgroup / (proc / "self/cgroup").read_text().strip().partition("::/")[2]
        quota, period = (group / "cpu.max").read_text().split()
        count = min(count, int(quota) // int(period))
    return max(1, count)
