"""Plugin of pytest for the short form, which looks at each page once, in the time that CI has.

While pytest starts, the page is built and a store is filled; while pages are looked at, their types
are checked.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = (sys.executable, "dashboard/build.py")


def start(*command: str) -> subprocess.Popen[bytes]:
    """Start a command in the checkout; what it prints is shown."""
    return subprocess.Popen(command, cwd=ROOT)


class ShortForm:
    """What is made beside the tests.

    Args:
        folder: For the store.
    """

    def __init__(self, folder: Path) -> None:
        self._store = folder / "demo"
        self._filling = start(sys.executable, "-m", "tests.dashboard.seeded", str(self._store))
        self._building = start(*BUILD, "--unchecked")
        self._checking: subprocess.Popen[bytes] | None = None

    def store(self) -> Path:
        """The project with a filled store, once the page is built, too."""
        assert self._building.wait() == 0, "the page is not built; see above"
        self._checking = self._checking or start(*BUILD, "check")
        assert self._filling.wait() == 0, "the store is not filled; see above"
        return self._store

    def close(self) -> bool:
        """End what still runs; whether the types are right, as far as they were checked."""
        self._building.wait()  # not cut off: it would leave half a page
        self._filling.kill()
        self._filling.wait()
        return self._checking is None or self._checking.wait() == 0


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Iterator[None]:
    """Fail where a type is wrong."""
    result = yield
    form = session.config.stash[FORM]
    if not form.close():
        session.shouldfail = "a type is wrong; see above"
        raise session.Failed(session.shouldfail)
    return result


FORM = pytest.StashKey[ShortForm]()


def pytest_configure(config: pytest.Config) -> None:
    """Start what takes its time."""
    folder = tempfile.TemporaryDirectory()
    config.add_cleanup(folder.cleanup)
    config.stash[FORM] = ShortForm(Path(folder.name))
