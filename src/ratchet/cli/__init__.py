"""The command line: `ratchet`."""

from __future__ import annotations

import gc
import io
import signal
import sys
from types import FrameType

_SELDOM = (50_000, 10, 10)
"""Garbage collection thresholds: commands allocate many objects that live until exit."""


def main() -> None:
    """Entry point of the `ratchet` command."""
    # Objects made by imports live until exit. Collecting garbage while they are being made takes a
    # tenth of the time of a short command.
    gc.disable()
    for stream in (sys.stdout, sys.stderr):
        # Names and messages may hold any letter; a terminal may support few.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    from ratchet.cli.app import app_for, run
    from ratchet.cli.errors import TELLER

    if TELLER is not None:  # it stops this command so, whatever its own starter ignores
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _as_ctrl_c)

    app = app_for(sys.argv[1:])
    gc.freeze()
    gc.set_threshold(*_SELDOM)  # commands import what they need when they run
    gc.enable()
    code = run(sys.argv[1:], app)
    if "torch" not in sys.modules:  # whose libraries print a page of leaks otherwise
        gc.freeze()  # or the interpreter scans all objects once more at exit
    sys.exit(code)


def _as_ctrl_c(number: int, frame: FrameType | None) -> None:
    """Stop a command as Ctrl-C does, so that what it started and its temporary files go too."""
    handler = signal.getsignal(signal.SIGINT)  # ignored in the background of a shell's script
    (handler if callable(handler) else signal.default_int_handler)(number, frame)
