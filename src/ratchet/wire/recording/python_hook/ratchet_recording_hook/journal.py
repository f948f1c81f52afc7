"""The journal of one process: a file of JSON lines, each written at once."""

from __future__ import annotations

import json
import os
from typing import Any

from ratchet_model_hook.quiet import quiet


class Journal:
    """Appends events; never raises.

    Args:
        folder: Where each process keeps its file.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._open()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._open)

    def _open(self) -> None:
        name = os.path.join(self._folder, f"{os.getpid()}-{os.urandom(4).hex()}.jsonl")
        with quiet():
            self._file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._seen: set[Any] = set()

    def write(self, kind: str, **fields: Any) -> None:
        """Append an event."""
        with quiet():
            try:
                line = json.dumps({"kind": kind, **fields}, default=str)
                os.write(self._file, line.encode("utf-8", "replace") + b"\n")
            except Exception:  # noqa: S110 - a full disk must not end the owner's program
                pass

    def once(self, kind: str, **fields: Any) -> None:
        """Append an event unless this process has written the same before."""
        key = (kind, tuple(sorted(fields.items())))
        if key not in self._seen and len(self._seen) < 20_000:
            self._seen.add(key)
            self.write(kind, **fields)
