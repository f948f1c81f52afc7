"""Looks at each page once, in the time that CI has: python -m tests.dashboard.short [OPTIONS].

The page is built while a store is filled, and its types are checked while it is looked at.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = (sys.executable, "dashboard/build.py")


def main(options: Sequence[str]) -> int:
    """Build, fill, look and check; the exit status is that of the first that failed."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "demo"
        filling = _start(sys.executable, "-m", "tests.dashboard.seeded", str(store))
        built = _start(*BUILD, "--unchecked").wait()
        checking = _start(*BUILD, "check")
        failed = filling.wait() or built or _look(store, options)
        return checking.wait() or failed


def _look(store: Path, options: Sequence[str]) -> int:
    os.environ |= {"RATCHET_TEST_BROWSER": "short", "RATCHET_TEST_STORE": str(store)}
    pages = ("tests/dashboard/test_pages.py", "-k", "shows_its_content or first_load")
    return _start(sys.executable, "-m", "pytest", *pages, *options).wait()


def _start(*command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, cwd=ROOT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
