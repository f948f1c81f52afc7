"""Bundles: a value in a file with its checksum, replaced atomically."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path
from typing import TypeVar

import msgspec

from ratchet._private_files import make_folder
from ratchet.types import RatchetError

ValueT = TypeVar("ValueT", bound=msgspec.Struct)


def write_bundle(path: Path, value: msgspec.Struct) -> None:
    """Replace a bundle atomically, or leave the old one.

    Raises:
        OSError: It cannot be written.
    """
    body = msgspec.json.encode(value)
    make_folder(path.parent)
    beside = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def read_bundle(path: Path, kind: type[ValueT]) -> ValueT | None:
    """The value in a bundle; None if there is none, or it is damaged.

    Raises:
        OSError: It cannot be read now, such as for want of descriptors.
    """
    try:
        digest, _, body = path.read_bytes().partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != digest:
            return None
        return msgspec.json.decode(body, type=kind)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError, RatchetError):
        return None
