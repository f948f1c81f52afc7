"""Outbox: outcomes that a worker leaves on disk when its parent is gone."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from ratchet._private_files import make_folder
from ratchet.types import Outcome

_log = logging.getLogger("ratchet")

_SUFFIX = ".outcomes"


def leave(outcomes: Sequence[Outcome], folder: Path) -> None:
    """Leave outcomes for the next parent: all of them, or none.

    Raises:
        OSError: They cannot be written.
    """
    make_folder(folder)
    path = folder / f"{uuid.uuid4().hex}{_SUFFIX}"
    beside = path.with_suffix(".part")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(msgspec.json.encode(outcomes))
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def left_in(folder: Path) -> Iterator[list[Outcome]]:
    """The outcomes left on disk, one worker's at a time.

    Each file is deleted when the next is asked for, so that outcomes stay until they are stored.
    """
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        try:
            outcomes = msgspec.json.decode(path.read_bytes(), type=list[Outcome])
        except FileNotFoundError:
            continue  # another process stored it
        except (OSError, msgspec.DecodeError, RecursionError) as error:
            _log.warning(
                "The outcomes in %s cannot be read, so they are left there: %s", path, error
            )
            continue
        yield outcomes
        path.unlink(missing_ok=True)
