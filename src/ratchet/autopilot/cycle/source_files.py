"""Notices that a project's own files changed: a process that imported them has old ones."""

from __future__ import annotations

import os
import sys
from pathlib import Path


class SourceFiles:
    """The files of a project that this process has read: its modules and `ratchet.toml`.

    Args:
        root: The project's folder.
    """

    def __init__(self, root: Path) -> None:
        self._root = os.path.join(root.resolve(), "")
        self._config = str(root.resolve() / "ratchet.toml")
        self._seen = {self._config: _state(self._config)}

    def changed(self) -> bool:
        """Whether any of these files has changed since the first call that knew of it."""
        for module in list(sys.modules.values()):
            path = getattr(module, "__file__", None)
            if isinstance(path, str) and path.startswith(self._root) and path not in self._seen:
                self._seen[path] = _state(path)
        return any(_state(path) != state for path, state in self._seen.items())


def _state(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
