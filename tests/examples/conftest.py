"""The example in Node, its simulated model, and the Ratchet that it sends to."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ratchet.store import Store
from tests.examples.room_agent import EXAMPLE, Site, Started, kept_port
from tests.node_packages import installed, node


@pytest.fixture
def nowhere() -> Iterator[str]:
    """An address where nobody is."""
    with kept_port() as kept:
        yield f"http://127.0.0.1:{kept.getsockname()[1]}"


@pytest.fixture(scope="session")
def program() -> Iterator[Path]:
    """A copy of the example, where it finds its packages."""
    folder = installed(EXAMPLE) / f"copy.{os.getpid()}"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("node_modules", ".ratchet"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def simulator(program: Path) -> Iterator[str]:
    """Base URL of the simulated model."""
    with Started([node(), "simulator.js"], program, PORT="0") as started:
        yield started.line.split()[-1]


@pytest.fixture(scope="session")
def site(program: Path, simulator: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """`ratchet serve` and the chat server, both on free ports."""
    folder = tmp_path_factory.mktemp("project")
    # Ratchet has to know the page's origin before the chat server can know Ratchet's address.
    kept = kept_port()
    port = str(kept.getsockname()[1])
    config = (EXAMPLE / "ratchet.toml").read_text()
    assert "http://127.0.0.1:3000" in config
    config = config.replace(":3000", f":{port}")
    config += f'[upstreams.simulator]\ndialect = "openai"\nbase_url = "{simulator}"\n'
    (folder / "ratchet.toml").write_text(config)

    provider_key = f"sk-{secrets.token_hex(20)}"
    url = f"sqlite:///{folder}/ratchet.db"
    serve = [sys.executable, "-m", "ratchet", "serve", "--json", "--store", url]
    with Store.open(url) as store:
        feedback, ingest, runner = (
            store.keys.create(scope, [scope], time.time(), None)[1]
            for scope in ("feedback", "ingest", "runner")
        )
        with Started([*serve, "--host", "0.0.0.0", "--port", "0"], folder) as served:
            ratchet = json.loads(served.line)["url"].replace("0.0.0.0", "127.0.0.1")
            with Started(
                [node(), "server.js"],
                program,
                PORT=port,
                OPENAI_BASE_URL=simulator,
                OPENAI_API_KEY=provider_key,
                OTEL_EXPORTER_OTLP_ENDPOINT=ratchet,
                OTEL_EXPORTER_OTLP_HEADERS=f"authorization=Bearer%20{ingest}",
                OTEL_BSP_SCHEDULE_DELAY="50",
                RATCHET_FEEDBACK_KEY=feedback,
            ) as chat:
                address = chat.line.split()[-1]
                assert address == f"http://127.0.0.1:{port}"
                yield Site(address, ratchet, store, program, feedback, ingest, runner, provider_key)
                assert chat.end() == 0
    kept.close()
