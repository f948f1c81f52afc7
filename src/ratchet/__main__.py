"""Run `ratchet` as `python -m ratchet`."""

from ratchet.cli import main

main()
