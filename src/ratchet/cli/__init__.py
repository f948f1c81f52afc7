"""The command line: `ratchet`."""

from __future__ import annotations

import gc
import io
import sys

_SELDOM = (50_000, 10, 10)
"""Objects made after which new ones are looked through for garbage, and so on."""


def main() -> None:
    """Entry point of the `ratchet` command."""
    # What imports make lives until the end: to look through it for garbage again and again, while
    # it is being made, is a tenth of the time that a short command takes.
    gc.disable()
    for stream in (sys.stdout, sys.stderr):
        # Names and messages hold all kinds of letters; a terminal may know few.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    from ratchet.cli.app import app_for, run

    app = app_for(sys.argv[1:])
    gc.freeze()
    gc.set_threshold(*_SELDOM)  # commands import what they need when they run
    gc.enable()
    code = run(sys.argv[1:], app)
    gc.freeze()  # the interpreter's end would look through all of it once more
    sys.exit(code)
