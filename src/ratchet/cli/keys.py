"""`ratchet keys`: API keys for the servers of a store."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from ratchet.autopilot import read_server_config
from ratchet.autopilot.live_prompt_files import LivePromptFiles
from ratchet.cli.console import Folder, Json, out, print_json, short, table
from ratchet.cli.errors import err
from ratchet.observe.project_paths import FILE_NAME, folder_with_config, prepare_state, store_url
from ratchet.store import Store
from ratchet.store.local_agents import open_with_agents
from ratchet.store.location import exists
from ratchet.types import SCOPES, InputError, Key

StoreUrl = Annotated[
    str | None, typer.Option("--store", help="URL of the store; by default the project's.")
]

_UNITS = {"h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}
_LONGEST_S = 100 * 366 * 86_400.0

keys = typer.Typer(
    help="Create, list and revoke API keys for the servers of a store.", no_args_is_help=True
)


@keys.command()
def create(
    name: Annotated[str, typer.Argument(help="Name of the key, for example its user's name.")],
    scope: Annotated[
        list[str],
        typer.Option(help=f"Scope: {', '.join(SCOPES)}. Repeatable."),
    ],
    expires: Annotated[str | None, typer.Option(help="Lifetime, such as 12h, 90d or 8w.")] = None,
    agent: Annotated[
        str, typer.Option(help="The only agent that the key may be used for; by default any.")
    ] = "",
    folder: Folder = Path("."),
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """Create a key and print it once.

    Its scopes set what it allows:

      feedback  give feedback only; such a key may be embedded in a web page

      ingest    send spans, use the gateway

      runner    claim rollouts, renew and report them

      develop   create rollouts, publish candidates, ask models at the project's cost, read

      read      read everything

      admin     everything, including keys, agents and releases

    Examples:

      ratchet keys create runners-eu --scope runner

      ratchet keys create ci --scope develop --expires 90d

      ratchet keys create shop --scope ingest --agent shop

      RATCHET_KEY=$(ratchet keys create laptop --scope admin)
    """
    now = time.time()
    until = None if expires is None else now + duration(expires)
    with open_store(folder, store) as opened:
        key, secret = opened.keys.create(name, scope, now, until, agent)
    if json:
        print_json({"key": key, "secret": secret})
        return
    # Only the key goes to standard output, so that a shell can capture it.
    typer.echo(secret)
    err.print(
        f"Key {key.name!r} ({key.id}) allows {', '.join(key.scopes)}{_for(key)}, {_until(key)}. "
        "It is shown only once: the store keeps only its hash.\n"
        "Send it as 'Authorization: Bearer rk_…'. Ratchet's own commands read RATCHET_KEY, and"
        " OpenAI's and Anthropic's clients take it as their API key.",
        markup=False,
        soft_wrap=True,
    )


@keys.command("list")
def show(folder: Folder = Path("."), store: StoreUrl = None, json: Json = False) -> None:
    """List the keys, with what they allow and when they were last used.

    Examples:

      ratchet keys list

      ratchet keys list --store postgresql://me@db/ratchet --json
    """
    with open_store(folder, store) as opened:
        api_keys = opened.keys.list()
    if json:
        print_json({"keys": api_keys})
        return
    if not api_keys:
        out.print("There is no key yet. Create one: ratchet keys create NAME --scope runner")
        return
    _print(api_keys, time.time())


@keys.command()
def revoke(
    key: Annotated[
        str, typer.Argument(help="The key's id, the start of the id, or the key's name.")
    ],
    folder: Folder = Path("."),
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """Revoke a key: every server of the store refuses it within two seconds.

    Examples:

      ratchet keys revoke runners-eu

      ratchet keys revoke 1f6c09ad
    """
    with open_store(folder, store) as opened:
        selected = opened.keys.find(key)
        revoked = opened.keys.revoke(selected.id, time.time()) or selected
    if json:
        print_json(revoked)
        return
    out.print(f"Revoked {revoked.name!r} ({revoked.id}).", markup=False)


def open_store(folder: Path, url: str | None, *, must_exist: bool = False) -> Store:
    """Open the store at a URL, or the store of the folder's project.

    As for `ratchet serve`, a folder without a `ratchet.toml` is its own project.

    Args:
        folder: The folder.
        url: The store's URL; None for the project's.
        must_exist: Refuse the URL of a file that does not exist: a command that only reads makes
            no empty store for a wrong name.

    Raises:
        ConfigError: `ratchet.toml` is malformed.
        InputError: There is no such file.
        StoreError: The store cannot be opened.
    """
    address, root = store_in(folder, url)
    if url is not None and must_exist and not exists(url):
        raise InputError(f"There is no store at {url}.", hint="Check the URL after --store.")
    if root is not None:
        prepare_state(root)
    return open_with_agents(address, prompt_files=None if root is None else LivePromptFiles(root))


def store_in(folder: Path, url: str | None) -> tuple[str, Path | None]:
    """The store's URL, and the project folder that its state folder is in.

    Raises:
        ConfigError: `ratchet.toml` is malformed.
        InputError: The folder does not exist.
    """
    if url is not None:
        return url, None
    if not folder.is_dir():
        raise InputError(f"There is no folder {folder}.")
    root = folder_with_config(folder)
    configured = None if root is None else read_server_config(root / FILE_NAME).store.url
    root = root or folder.resolve()
    return store_url(root, configured), root


def duration(text: str) -> float:
    """Parse a duration such as 12h, 90d or 8w into seconds.

    Raises:
        InputError: It is malformed, or longer than a century.
    """
    match = re.fullmatch(r"([0-9]{1,9})([hdw])", text.strip().lower())
    seconds = int(match[1]) * _UNITS[match[2]] if match else 0.0
    if not 0.0 < seconds <= _LONGEST_S:
        raise InputError(
            f"{text!r} is not a duration.",
            hint="Write hours, days or weeks, such as 12h, 90d or 8w.",
        )
    return seconds


def _for(key: Key) -> str:
    return f" for the agent {key.agent}" if key.agent else ""


def _print(keys: Iterable[Key], now: float) -> None:
    rows = table("id", "name", "scopes", "agent", "made", "last used", "state")
    for key in keys:
        state = _until(key)
        if key.revoked_at is not None:
            state = f"revoked {_moment(key.revoked_at)}"
        elif key.expires_at is not None and key.expires_at <= now:
            state = f"expired {_moment(key.expires_at)}"
        used = "-" if key.last_used_at is None else _moment(key.last_used_at)
        rows.add_row(
            short(key.id),
            key.name,
            " ".join(key.scopes),
            key.agent or "any",
            _moment(key.created_at),
            used,
            state,
        )
    out.print(rows, markup=False)


def _until(key: Key) -> str:
    return "for ever" if key.expires_at is None else f"until {_moment(key.expires_at)}"


def _moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at).astimezone():%Y-%m-%d %H:%M}"
