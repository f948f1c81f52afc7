"""Keeps the documents on disk, because reading the whole library takes seconds."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
from dataclasses import asdict
from functools import cache
from pathlib import Path

from . import documents as reader
from .documents import Document, read_library


def cache_file() -> Path:
    """The file for this Python and this way of reading; `STDLIB_HELPER_CACHE` names its folder."""
    folder = os.environ.get("STDLIB_HELPER_CACHE")
    base = Path(folder) if folder else _home() / ".cache" / "stdlib_helper"
    recipe = hashlib.sha256(Path(reader.__file__).read_bytes()).hexdigest()[:12]
    return base / f"documents-{platform.python_version()}-{recipe}.json"


def _home() -> Path:
    # A container's user may have no home folder.
    try:
        return Path.home()
    except RuntimeError:
        return Path(tempfile.gettempdir())


@cache
def documents() -> tuple[Document, ...]:
    """The documents of the standard library, from the cache file when there is a sound one."""
    return tuple(load_documents(cache_file()))


def load_documents(path: Path) -> list[Document]:
    """Reads the cache file; if it is missing or damaged, reads the library and writes it anew."""
    try:
        return [Document(**row) for row in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        found = read_library()
        _write(path, found)
        return found


def _write(path: Path, found: list[Document]) -> None:
    """Writes all or nothing: another process never sees half a file."""
    text = json.dumps([asdict(document) for document in found])
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError:
        # A read-only folder or a full disk costs a few seconds at the next start, no more.
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
