"""Where what nobody takes waits: on disk, or in memory where somebody wants it so."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ratchet.types import RatchetError

if TYPE_CHECKING:
    from ratchet.observe.destination import Destination
    from ratchet.observe.spool import Backlog

FEEDBACK_BYTES = 32 * 1024 * 1024
"""Of the feedback that waits on disk; that of spans is `spool.MAX_BYTES`."""


def span_backlog(found: Destination, *, on_disk: bool) -> Backlog:
    """Where spans for a destination wait."""
    from ratchet.observe.spool import MAX_BYTES

    return _backlog(found, found.spool, MAX_BYTES) if on_disk else _in_memory()


def feedback_backlog(found: Destination, *, on_disk: bool) -> Backlog:
    """Where feedback for a destination waits."""
    return _backlog(found, found.feedback_spool, FEEDBACK_BYTES) if on_disk else _in_memory()


def _in_memory() -> Backlog:
    from ratchet.observe.spool import MemoryBacklog

    return MemoryBacklog()


def _backlog(found: Destination, folder: Path, max_bytes: int) -> Backlog:
    from ratchet.observe.project_paths import STATE_NAME, prepare_state
    from ratchet.observe.spool import Spool

    root = found.root
    if root is None or not folder.is_relative_to(root / STATE_NAME):
        return Spool(folder, max_bytes=max_bytes)

    def prepare() -> None:
        try:
            prepare_state(root)
        except RatchetError as error:
            raise OSError(str(error)) from error

    return Spool(folder, max_bytes=max_bytes, prepare=prepare)
