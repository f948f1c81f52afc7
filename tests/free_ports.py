"""Ports that a process may bind a moment later: not of those that the system gives to connections.

A port that was bound to 0 and closed again may be given to any connection before it is used. These
are below the range of such ports, and each test worker has a part of its own.
"""

from __future__ import annotations

import itertools
import os
import random
import socket

FIRST, LAST, EACH = 20_000, 32_000, 500  # below are those of Ray's workers

_worker = int("0" + "".join(filter(str.isdigit, os.environ.get("PYTEST_XDIST_WORKER", "0"))))
_start = FIRST + (_worker * EACH) % (LAST - FIRST)
# Two runs on one machine begin at different ports.
_order = random.Random(os.getpid()).sample(range(_start, _start + EACH), EACH)
_ports = itertools.cycle(_order)


def free_port() -> int:
    """A port of 127.0.0.1 that nothing listens on, another one at each call."""
    for port in itertools.islice(_ports, EACH):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"No port from {_start} to {_start + EACH} is free.")
