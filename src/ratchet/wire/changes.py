"""What `ratchet init` would change: pieces of existing files, and new files.

Each step of the wiring reads the files as they are and returns `Changes`. Pieces carry byte offsets
into the untouched file, so the steps know nothing of one another, and what they did not ask for
stays as it is to the byte.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import msgspec

from ratchet.types import InputError
from ratchet.wire.looking.inventory import Place


class Piece(msgspec.Struct, frozen=True, order=True):
    """A replacement in a file; an insertion where `start` equals `end`."""

    start: int
    end: int
    """Byte span in the file as it is on disk."""
    text: str
    """With the file's own line endings."""


class FileChange(msgspec.Struct, frozen=True):
    """A file to change or create."""

    path: str
    """Relative to the repository, with forward slashes."""
    purpose: str
    """Purpose of the change, as a sentence."""
    pieces: tuple[Piece, ...] = ()
    """For an existing file."""
    content: str | None = None
    """For a new file."""


class LeftAlone(msgspec.Struct, frozen=True):
    """Something that was found but not wired."""

    what: str
    place: Place
    why: str
    """A sentence that says why and what to do instead."""


class Changes(msgspec.Struct, frozen=True):
    """All changes of a step, or of the whole wiring."""

    files: tuple[FileChange, ...] = ()
    left_alone: tuple[LeftAlone, ...] = ()

    @classmethod
    def combined(cls, parts: Iterable[Changes]) -> Changes:
        """Join the changes of several steps; equal pieces at the same place become one.

        Raises:
            InputError: Two steps replace the same bytes, or one creates a file that another changes
                or creates with other contents.
        """
        by_path: dict[str, list[FileChange]] = {}
        left: dict[LeftAlone, None] = {}
        for part in parts:
            for change in part.files:
                by_path.setdefault(change.path, []).append(change)
            left.update(dict.fromkeys(part.left_alone))
        files = tuple(_joined(path, changes) for path, changes in sorted(by_path.items()))
        return cls(files, tuple(left))


def apply_pieces(before: bytes, pieces: Iterable[Piece]) -> bytes:
    """Apply pieces to a file's bytes; insertions at the same place keep the order of `pieces`."""
    parts, at = [], 0
    for piece in sorted(pieces, key=lambda piece: (piece.start, piece.end)):
        parts += [before[at : piece.start], piece.text.encode()]
        at = piece.end
    return b"".join([*parts, before[at:]])


def _joined(path: str, changes: list[FileChange]) -> FileChange:
    purpose = " ".join(dict.fromkeys(change.purpose for change in changes))
    contents = {change.content for change in changes}
    if contents != {None}:
        if len(contents) > 1:
            raise InputError(f"{path}: two steps of the wiring would write different contents.")
        return FileChange(path, purpose, content=contents.pop())
    pieces = dict.fromkeys(piece for change in changes for piece in change.pieces)
    ordered = sorted(pieces, key=lambda piece: (piece.start, piece.end))
    for first, second in pairwise(ordered):
        if second.start < first.end:
            raise InputError(
                f"{path}: two steps of the wiring would change the same bytes, from "
                f"{second.start} on."
            )
    return FileChange(path, purpose, pieces=tuple(ordered))
