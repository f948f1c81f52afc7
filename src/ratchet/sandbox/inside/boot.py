"""Start the code inside a sandbox: `python boot.py CONTROL CONFIG`, two open descriptors."""

from __future__ import annotations

import os
import sys


def boot(control: int, config: int) -> None:
    """Load the package beside this file under the name `inside`, and run it."""
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.path.insert(0, home)
    try:
        entry = __import__("inside.entry", fromlist=["main"])
    finally:
        sys.path.remove(home)
    entry.main(control, config)


if __name__ == "__main__":
    boot(int(sys.argv[1]), int(sys.argv[2]))
