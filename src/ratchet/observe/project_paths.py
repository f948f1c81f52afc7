"""Paths of a project: its folder, its state folder and its store."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ratchet._private_files import close_folder, make_folder
from ratchet.types import StoreError

FILE_NAME = "ratchet.toml"
STATE_NAME = ".ratchet"


def folder_with_config(start: Path) -> Path | None:
    """The nearest folder, from `start` upwards, that has a `ratchet.toml`; None if none has."""
    start = start.resolve()
    return next((f for f in (start, *start.parents) if (f / FILE_NAME).is_file()), None)


def store_url(root: Path, url: str | None) -> str:
    """URL of the store: RATCHET_STORE, [store] url, or SQLite in the state folder.

    Args:
        root: The project's folder; a relative path in [store] url is relative to it.
        url: [store] url.
    """
    if url and re.match(r"sqlite:///[^/:]", url):
        url = f"sqlite:///{root / url.removeprefix('sqlite:///')}"
    return os.environ.get("RATCHET_STORE") or url or own_store_url(root)


def own_store_url(root: Path) -> str:
    """URL of the SQLite store in a project's state folder."""
    return f"sqlite:///{root / STATE_NAME / 'ratchet.db'}"


def prepare_state(root: Path) -> Path:
    """Create the state folder with mode 0700 and a `.gitignore` that excludes it.

    The mode of an existing folder is corrected: earlier versions used the umask.

    Raises:
        StoreError: The project's folder is not writable.
    """
    state = root / STATE_NAME
    try:
        make_folder(state)
        close_folder(state)
        ignore = state / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
    except OSError as error:
        raise StoreError(
            f"The folder {state} cannot be written: {error.strerror}.",
            hint="Make the project's folder writable, or run in a copy of it.",
        ) from None
    return state
