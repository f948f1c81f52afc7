"""Configures the allocator to return memory of large bodies as soon as they are handled."""

from __future__ import annotations

import contextlib
import ctypes

_M_MMAP_THRESHOLD = -3
"""Option of glibc's `mallopt`."""

MMAP_THRESHOLD = 1024 * 1024
"""Buffers of this many bytes or more are mapped separately."""


def give_back_large_buffers() -> None:
    """Have glibc map large buffers separately, for the rest of the process.

    By itself it raises the threshold to the largest buffer that was freed (mallopt(3)). Bodies then
    grow on the heap, where they are copied as they do, and leave holes that stay with the process.
    """
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, MMAP_THRESHOLD)
