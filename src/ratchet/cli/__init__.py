"""The command line: `ratchet`."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the `ratchet` command."""
    from ratchet.cli.app import run

    sys.exit(run(sys.argv[1:]))
