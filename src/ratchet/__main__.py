"""`python -m ratchet` is `ratchet`."""

from ratchet.cli import main

main()
