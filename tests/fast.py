"""`--fast`: only the tests that start no process and no server, in about a minute.

A module is left out when its source names what starts a process or a server, when its folder is
about processes, or when it is in SLOW. A test is left out when one of its fixtures starts a server.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

STARTERS = re.compile(
    r"\b(subprocess|multiprocessing|interpreters|Popen|os\.fork|serving|SimulatorThread|socket"
    r"|HTTPServer|LocalModel|local_model|WorkerExecutor|executor_for|CommandExecutor|SandboxPool|ray|committed|git\("
    r"|Project\.find|improve)\b"
)
"""Names that a module uses which starts processes or servers."""

SERVERS = frozenset({"serving", "postgres_server"})
"""Fixtures that start servers; those made of them count too."""

FOLDERS = frozenset(
    {"cli", "examples", "faults", "frameworks", "javascript", "packaging", "sandbox"}
)
"""Folders of tests that nearly all start a process."""

SLOW = frozenset(
    {
        "autopilot/test_reward_hacking.py",
        "learn/evolve/test_evolve.py",
        "learn/test_tune.py",
        "prove/test_evidence.py",
        "ship/forges/test_gitlab.py",
        "ship/forges/test_propose.py",
        "ship/test_read_values.py",
        "store/test_pruning.py",
    }
)
"""Modules that take many seconds: searches, stores of many rows, repositories with remotes."""


class Fast:
    """A pytest plugin that collects the fast tests only."""

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave out modules that are slow, or start processes or servers."""
        if collection_path.suffix != ".py" or not collection_path.is_relative_to(TESTS):
            return None
        path = collection_path.relative_to(TESTS)
        if path.parts[0] in FOLDERS or path.as_posix() in SLOW:
            return True
        if path.name.startswith("test_") and STARTERS.search(collection_path.read_text()):
            return True
        return None

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave out tests on Postgres and those around a server."""

        def is_slow(item: pytest.Item) -> bool:
            fixtures = getattr(item, "fixturenames", ())
            return not SERVERS.isdisjoint(fixtures) or bool(item.get_closest_marker("postgres"))

        config.hook.pytest_deselected(items=[item for item in items if is_slow(item)])
        items[:] = [item for item in items if not is_slow(item)]
