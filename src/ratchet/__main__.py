"""Run `ratchet` as `python -m ratchet`."""

import sys
from importlib.util import find_spec

if find_spec("ratchet.cli") is None:
    sys.exit(
        "error: The command line is a part of the tool, which is not installed in this environment."
        " Install it: pip install 'agent-ratchet[tool]'"
    )

from ratchet.cli import main

main()
