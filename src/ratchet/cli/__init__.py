"""The command line: `ratchet`."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Entry point of the `ratchet` command."""
    # What imports make lives until the end: to look through it for garbage again and again, while
    # it is being made, is a tenth of the time that a short command takes.
    gc.disable()
    from ratchet.cli.app import app_for, run

    app = app_for(sys.argv[1:])
    gc.freeze()
    gc.enable()
    sys.exit(run(sys.argv[1:], app))
