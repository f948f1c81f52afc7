"""The npm package and a server that asks everybody for a key."""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ratchet.server.serve import ServeSettings
from ratchet.store import Store
from tests.javascript.built import built
from tests.serving import RunningServer


@dataclass
class Site:
    """A server and its store."""

    url: str
    store: Store
    ingest_key: str
    run_key: str

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
        ingest, run = (
            store.keys.create(scope, [scope], time.time(), None)[1]
            for scope in ("ingest", "develop")
        )
        server = RunningServer(url, ServeSettings(port=0, require_key=True))
        try:
            yield Site(server.url, store, ingest, run)
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
