"""Local models of this process: one process for each file, however many use it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ratchet.models.local_model import LocalModel
from ratchet.models.model_file import find_model

_lock = threading.Lock()
_running: dict[Path, tuple[LocalModel, int]] = {}
"""Running models by their files, with the number of users of each."""


@contextmanager
def shared_model(name: str, say: Callable[[str], None], folder: Path) -> Iterator[LocalModel]:
    """Use a local model, which is started for the first user and stopped after the last.

    Args:
        name: `local`, or `local:` with a model's name or path.
        say: Called with a sentence before something is fetched, and when the model is served.
        folder: Folder that a path is relative to.

    Raises:
        ModelUnavailable: It cannot be had or started.
    """
    file = find_model(name, say, folder=folder)
    with _lock:
        model, users = _running.get(file.path, (None, 0))
        if model is None:
            model = LocalModel(file).__enter__()
            say(f"Serving {file.name}: {model.sentence}.")
        _running[file.path] = model, users + 1
    try:
        yield model
    finally:
        with _lock:
            model, users = _running.pop(file.path)
            if users > 1:
                _running[file.path] = model, users - 1
            else:
                model.__exit__(None, None, None)
