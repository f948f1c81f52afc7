"""The record of what the wiring made: a small file that is committed with it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from ratchet._version import __version__
from ratchet.types import InputError
from ratchet.wire.changes import FileChange, Piece
from ratchet.wire.choices import Choices, PromptChoice, PromptWay, RunWay
from ratchet.wire.facts import PromptSite
from ratchet.wire.former.tokens import fingerprint, tokens_of, whole_tokens

NAME = ".ratchet-init.json"
_VERSION = 1
_CONTEXT = 120
"""Characters that are kept of each side of a piece."""


_MOVED = 12
"""Characters from which on a text that two pieces hold counts as moved."""
DEFINING = re.compile(r"\s*(\w+)\s*=(?!=)")


class RecordedPiece(msgspec.Struct, frozen=True, omit_defaults=True):
    """A piece of a file that existed, and where it stands."""

    inserted: str
    removed: str = ""
    before: str = ""
    """Text before it, as it was when the piece was made."""
    after: str = ""


class FormerRecordedFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was made of one file."""

    path: str
    """Relative to the repository that was wired, with forward slashes."""
    purpose: str
    pieces: tuple[RecordedPiece, ...] = ()
    created: str = ""
    """Fingerprint of a file that did not exist; empty for one that did."""


class RecordedPrompt(msgspec.Struct, frozen=True):
    """How a prompt was bound."""

    name: str
    path: str
    site: str
    """Its name in the code."""
    way: PromptWay
    text: str
    """Fingerprint of its text, as it was before."""


class FormerRecord(msgspec.Struct, frozen=True):
    """All that was made, and by which choices."""

    version: int
    ratchet: str
    """Version of Ratchet that made it."""
    project: str
    agent: str
    entry: str
    """Name of the agent's entry."""
    entry_path: str
    """The file that it is in."""
    run: RunWay
    may_run: tuple[str, ...]
    workflow: bool
    prompts: tuple[RecordedPrompt, ...]
    files: tuple[FormerRecordedFile, ...]


def record_of(
    choices: Choices, files: Iterable[FileChange], contents: Mapping[str, bytes | None]
) -> FormerRecord:
    """The record of a plan.

    Args:
        choices: What was decided.
        files: What is changed and created, without the record.
        contents: Bytes of each file as it is now; None for one that is created.
    """
    return FormerRecord(
        _VERSION,
        __version__,
        choices.project,
        choices.agent,
        choices.entry.name,
        choices.entry.place.path,
        choices.run,
        choices.may_run,
        choices.workflow,
        tuple(recorded_prompt(one) for one in choices.prompts),
        tuple(recorded_file(change, contents.get(change.path)) for change in files),
    )


def recorded_prompt(choice: PromptChoice) -> RecordedPrompt:
    """What is recorded of one prompt."""
    site = choice.prompt
    return RecordedPrompt(choice.name, site.place.path, site.name, choice.way, text_of(site))


def text_of(site: PromptSite) -> str:
    """Fingerprint of a prompt's text."""
    return fingerprint("\0".join(part.text for part in site.parts), "")


def recorded_file(change: FileChange, data: bytes | None) -> FormerRecordedFile:
    """What is recorded of one file.

    Args:
        change: What is made of it.
        data: Its bytes as they are now; None if it is created.
    """
    if data is None or change.content is not None:
        made = fingerprint(change.content or "", change.path)
        return FormerRecordedFile(change.path, change.purpose, created=made)
    pieces = small_pieces(change.pieces, data)
    parts, starts, at = [], [], 0
    length = 0
    for piece in pieces:
        kept = decoded(data[at : piece.start])
        starts.append(length + len(kept))
        length += len(kept) + len(piece.text) + len(piece.moved)
        parts += [kept, piece.text, piece.moved]
        at = piece.end
    wired = "".join([*parts, decoded(data[at:])])
    tokens = tokens_of(wired, change.path)
    recorded = []
    for piece, start in zip(pieces, starts, strict=True):
        stop = start + len(piece.text)
        before = whole_tokens(tokens, max(0, start - _CONTEXT), start)
        after = whole_tokens(tokens, stop, min(len(wired), stop + _CONTEXT))
        recorded.append(
            RecordedPiece(
                piece.text,
                decoded(data[piece.start : piece.end]),
                wired[slice(*before)],
                wired[slice(*after)],
            )
        )
    return FormerRecordedFile(change.path, change.purpose, tuple(recorded))


class SmallPiece(NamedTuple):
    """A part of a piece that holds nothing of the user's."""

    start: int
    end: int
    text: str
    moved: str = ""
    """Text of the user's that follows it, from where another piece removed it."""


def small_pieces(pieces: Iterable[Piece], data: bytes) -> list[SmallPiece]:
    """Pieces without what they leave as it was, and without what they only move.

    One around a text is two insertions. So is a definition of a text that another piece replaces
    by its name: `_X = ratchet.prompt("x", "…")` and `str(_X)`.
    """
    small: list[SmallPiece] = []
    for piece in pieces:
        removed = decoded(data[piece.start : piece.end])
        if removed and piece.text.count(removed) == 1:
            before, _, after = piece.text.partition(removed)
            small.append(SmallPiece(piece.start, piece.start, before))
            small.append(SmallPiece(piece.end, piece.end, after))
        else:
            small.append(SmallPiece(piece.start, piece.end, piece.text))
    removed_texts = {decoded(data[one.start : one.end]) for one in small}
    divided = []
    for one in small:
        moved = [
            text
            for text in removed_texts
            if len(text) >= _MOVED and one.start == one.end and one.text.count(text) == 1
        ]
        if len(moved) == 1 and DEFINING.match(one.text):
            before, _, after = one.text.partition(moved[0])
            divided.append(SmallPiece(one.start, one.start, before, moved[0]))
            divided.append(SmallPiece(one.start, one.start, after))
        else:
            divided.append(one)
    return [one for one in divided if one.text or one.start < one.end]


def decoded(data: bytes) -> str:
    """Bytes as text, whatever their encoding; `encoded` gives them back."""
    return data.decode(errors="surrogateescape")


def encoded(text: str) -> bytes:
    """The bytes of a text of `decoded`."""
    return text.encode(errors="surrogateescape")


def record_text(record: FormerRecord) -> str:
    """The record as it is committed."""
    return json.dumps(msgspec.to_builtins(record), indent=1) + "\n"


def read_record(text: str, path: str) -> FormerRecord:
    """Read a record.

    Raises:
        InputError: It is none, or a newer Ratchet wrote it.
    """
    try:
        data: Any = json.loads(text)
        version = data.get("version") if isinstance(data, dict) else None
        if isinstance(version, int) and version > _VERSION:
            raise InputError(
                f"{path} was written by Ratchet {data.get('ratchet')}, which is newer.",
                hint="Update Ratchet: pip install -U 'agent-ratchet[tool]'",
            )
        return msgspec.convert(data, FormerRecord)
    except (ValueError, msgspec.ValidationError) as error:
        raise InputError(
            f"{path} is not a record of ratchet init: {error}.",
            hint="Restore it from git: git checkout HEAD -- " + path,
        ) from None


def hash_of(data: bytes | None) -> str:
    """Fingerprint of bytes; empty for a file that is not there."""
    return hashlib.sha256(data).hexdigest() if data is not None else ""
