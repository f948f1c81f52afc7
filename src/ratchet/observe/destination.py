"""Destination: where a process sends its spans and feedback, and under which agent's name."""

from __future__ import annotations

import hashlib
import os
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from ratchet.observe.agent_names import agent_name
from ratchet.observe.project_paths import (
    FILE_NAME,
    STATE_NAME,
    folder_with_config,
    prepare_state,
    store_url,
)
from ratchet.observe.spool import Spool
from ratchet.types import ConfigError, RatchetError

AGENT_VARIABLE = "RATCHET_AGENT"

SpoolT = TypeVar("SpoolT", bound=Spool)


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """A server or a store, and the agent whose records it receives."""

    agent: str
    server: str = ""
    """Address of a server; empty for a store."""
    key: str | None = None
    store: str = ""
    """URL of a store."""
    root: Path | None = None
    """The project folder; its state folder is created when something is stored there."""
    state: Path
    """Folder of what Ratchet keeps for this project, or else for this user."""
    spool: Path
    """Folder of the records that wait for this destination."""
    live: Path
    """File of what the agent should run."""
    config: dict[str, Any] = {}
    """Content of `ratchet.toml`, not validated."""

    def __repr__(self) -> str:
        return f"<Destination {self.server or 'of a store'} of {self.agent}>"


def find(
    agent: str | None,
    url: str | None,
    key: str | None,
    *,
    environ: Mapping[str, str] = os.environ,
    folder: Path | None = None,
) -> Destination:
    """Find the destination of this process.

    Args:
        agent: The agent's name; RATCHET_AGENT, the entry in `ratchet.toml` or the script's name
            when left out.
        url: A server's address or a store's URL; RATCHET_URL or the project's store when left out.
        key: The server's key; RATCHET_KEY when left out.
        environ: The environment's variables.
        folder: Where to look for the project; the working directory when left out.

    Raises:
        ConfigError: The address or the key is malformed, or `ratchet.toml` cannot be read.
    """
    from ratchet.client.address import URL_VARIABLE, address_of, is_server, key_of

    start = folder or Path.cwd()
    root = folder_with_config(start)
    config = {} if root is None else _read(root / FILE_NAME)
    name = agent_name(agent or environ.get(AGENT_VARIABLE) or entry_of(config) or _script())
    chosen_url = (url or environ.get(URL_VARIABLE, "")).strip()
    if chosen_url and (is_server(chosen_url) or "://" not in chosen_url):
        server = address_of(chosen_url).url
        key_of(key)  # raises here rather than in the background
        state = root / STATE_NAME if root is not None else cache()
        return Destination(
            agent=name,
            server=server,
            key=key,
            root=root,
            state=state,
            spool=spool_folder(state, name, server),
            live=live_file(state, name, server),
            config=config,
        )
    home = root or start.resolve()
    section = config.get("store")
    configured_url = section.get("url") if isinstance(section, dict) else None
    if chosen_url and not chosen_url.startswith(("sqlite", "postgres")):
        raise ConfigError(
            f"The address begins with {chosen_url.partition('://')[0]!r}, which is neither a server"
            " nor a store.",
            hint="Write it as http://HOST:PORT, sqlite:////PATH or postgresql://USER@HOST/NAME.",
        )
    store = chosen_url or store_url(
        home, configured_url if isinstance(configured_url, str) else None
    )
    meeting = meeting_place(store)
    return Destination(
        agent=name,
        store=store,
        root=home,
        state=home / STATE_NAME,
        spool=spool_folder(meeting.folder, name, meeting.address),
        live=live_file(meeting.folder, name, meeting.address),
        config=config,
    )


class MeetingPlace(NamedTuple):
    """Where the agents and the tool on a machine meet if they share a store."""

    folder: Path
    address: str
    """The store's URL in a form that does not depend on how it was written."""


def meeting_place(store: str) -> MeetingPlace:
    """The place for a store: beside a SQLite database, or else in the user's cache folder.

    Args:
        store: The store's URL.
    """
    address = store.partition("://")[2]
    if store.startswith("sqlite"):
        database = Path(os.path.realpath(address.removeprefix("/").partition("?")[0]))
        return MeetingPlace(database.parent, f"sqlite:///{database}")
    # Who connects, and by which driver, does not matter.
    return MeetingPlace(cache(), address.rpartition("@")[2].replace(":5432/", "/", 1))


def spool_of(folder: Path, root: Path | None, kind: type[SpoolT]) -> SpoolT:
    """The spool in a folder, which the first record creates.

    Args:
        folder: The folder.
        root: The project's; its state folder is created first if the spool is in it.
        kind: Which spool.
    """

    def prepare() -> None:
        if root is not None and folder.is_relative_to(root / STATE_NAME):
            try:
                prepare_state(root)
            except RatchetError as error:
                raise OSError(str(error)) from error

    return kind(folder, prepare=prepare)


def spool_folder(state: Path, agent: str, address: str) -> Path:
    """Folder of an agent's records that wait for a destination.

    Args:
        state: The folder of what Ratchet keeps.
        agent: The live agent's name.
        address: The server's address, or that of the store's meeting place.
    """
    # One folder a destination: records for one server must not reach another.
    return state / "spool" / f"{agent}-{destination_digest(address)}"


def live_file(state: Path, agent: str, address: str) -> Path:
    """File of what an agent should run; arguments as for `spool_folder`."""
    return state / "live" / f"{agent}-{destination_digest(address)}.json"


def destination_digest(address: str) -> str:
    """What distinguishes the files for one destination from those for others."""
    return hashlib.sha256(address.encode()).hexdigest()[:8]


def cache() -> Path:
    """The user's cache folder."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "ratchet"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ratchet"


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from None


def entry_of(config: Mapping[str, Any]) -> str:
    """The entry that `ratchet.toml` names; empty without one."""
    section = config.get("agent")
    entry = section.get("entry") if isinstance(section, dict) else None
    return entry if isinstance(entry, str) else ""


def _script() -> str:
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name:  # python -m package.module
        return str(spec.name).removesuffix(".__main__")
    return Path(sys.argv[0]).stem if sys.argv and sys.argv[0] not in ("", "-", "-c") else "agent"
