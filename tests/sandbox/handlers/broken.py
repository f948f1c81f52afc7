"""Handlers whose `prepare` fails, each in its way, by the setup."""

from __future__ import annotations

import os
import sys
import time


def prepare(setup: bytes) -> None:
    """Fail as told."""
    if setup == b"raise":
        print("half way", flush=True)
        raise ValueError("no such model")
    if setup == b"exit":
        os._exit(3)
    if setup == b"sleep":
        time.sleep(900)
    if setup == b"print":
        while True:
            sys.stderr.write("x" * 100_000)
    if setup == b"memory":
        held = []
        while True:
            held.append(bytearray(50_000_000))
    if setup == b"daemon" and os.fork() == 0:
        os.setsid()
        time.sleep(900)
        os._exit(0)


def handle(_state: None, body: bytes) -> bytes:
    """Return what came."""
    return body
