"""What libraries log stays off the terminal: it may quote outputs, prompts and attacks."""

from __future__ import annotations

import logging
import os
import sysconfig

_FOLDERS = tuple(
    sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib", "platstdlib")
)
"""Where installed packages and Python's own modules are."""


def silence_libraries() -> None:
    """Of what is logged where nobody has set up logging, show what Ratchet and the project log.

    Python prints warnings of any logger there (`logging.lastResort`).
    """
    if logging.lastResort is not None:
        logging.lastResort.addFilter(_is_of_no_library)  # adding it again has no effect


def _is_of_no_library(record: logging.LogRecord) -> bool:
    if record.name.partition(".")[0] == "ratchet":
        return True
    # Compiled modules name their source as it was called where they were built.
    return os.path.isabs(record.pathname) and not record.pathname.startswith(_FOLDERS)
