"""Keeps libraries' log messages off the terminal: they may quote outputs, prompts and attacks."""

from __future__ import annotations

import logging
import sysconfig
from pathlib import PurePath

_INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Folders of installed packages, whichever environment they belong to."""

_PYTHON = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))


def silence_libraries() -> None:
    """Show log messages of Ratchet and the project, and of no library, where logging is not set up.

    Python prints warnings of any logger there (`logging.lastResort`).
    """
    if logging.lastResort is not None:
        logging.lastResort.addFilter(_is_of_no_library)  # adding it again has no effect


def _is_of_no_library(record: logging.LogRecord) -> bool:
    if record.name.partition(".")[0] == "ratchet":
        return True
    path = PurePath(record.pathname)
    # Compiled modules name their source as it was called where they were built.
    return (
        path.is_absolute()
        and _INSTALLED.isdisjoint(path.parts)
        and not record.pathname.startswith(_PYTHON)
    )
