"""The record of what the wiring made: a small file that is committed with it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ratchet._version import __version__
from ratchet.types import InputError
from ratchet.wire.applying.tokens import fingerprint, tokens_of, whole_tokens
from ratchet.wire.changes import FileChange, Piece
from ratchet.wire.choices import Choices, PromptChoice, PromptWay, RunWay
from ratchet.wire.facts import PromptSite

NAME = ".ratchet-init.json"
_VERSION = 1
_CONTEXT = 120
"""Characters that are kept of each side of a piece."""


class RecordedPiece(msgspec.Struct, frozen=True, omit_defaults=True):
    """A piece of a file that existed, and where it stands."""

    inserted: str
    removed: str = ""
    before: str = ""
    """Text before it, as it was when the piece was made."""
    after: str = ""


class RecordedFile(msgspec.Struct, frozen=True, omit_defaults=True):
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


class Record(msgspec.Struct, frozen=True):
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
    files: tuple[RecordedFile, ...]


def record_of(
    choices: Choices, files: Iterable[FileChange], contents: Mapping[str, bytes | None]
) -> Record:
    """The record of a plan.

    Args:
        choices: What was decided.
        files: What is changed and created, without the record.
        contents: Bytes of each file as it is now; None for one that is created.
    """
    return Record(
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


def recorded_file(change: FileChange, data: bytes | None) -> RecordedFile:
    """What is recorded of one file.

    Args:
        change: What is made of it.
        data: Its bytes as they are now; None if it is created.
    """
    if data is None or change.content is not None:
        made = fingerprint(change.content or "", change.path)
        return RecordedFile(change.path, change.purpose, created=made)
    pieces = [small for piece in change.pieces for small in minimal(piece, data)]
    parts, starts, at = [], [], 0
    length = 0
    for piece in pieces:
        kept = decoded(data[at : piece.start])
        starts.append(length + len(kept))
        length += len(kept) + len(piece.text)
        parts += [kept, piece.text]
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
    return RecordedFile(change.path, change.purpose, tuple(recorded))


def minimal(piece: Piece, data: bytes) -> list[Piece]:
    """A piece without what it leaves as it was: one around a text is two insertions."""
    removed = decoded(data[piece.start : piece.end])
    if removed and piece.text.count(removed) == 1:
        before, _, after = piece.text.partition(removed)
        ends = [Piece(piece.start, piece.start, before), Piece(piece.end, piece.end, after)]
        return [one for one in ends if one.text]
    return [piece]


def decoded(data: bytes) -> str:
    """Bytes as text, whatever their encoding; `encoded` gives them back."""
    return data.decode(errors="surrogateescape")


def encoded(text: str) -> bytes:
    """The bytes of a text of `decoded`."""
    return text.encode(errors="surrogateescape")


def record_text(record: Record) -> str:
    """The record as it is committed."""
    return json.dumps(msgspec.to_builtins(record), indent=1) + "\n"


def read_record(text: str, path: str) -> Record:
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
                hint="Update Ratchet: pip install -U agent-ratchet",
            )
        return msgspec.convert(data, Record)
    except (ValueError, msgspec.ValidationError) as error:
        raise InputError(
            f"{path} is not a record of ratchet init: {error}.",
            hint="Restore it from git: git checkout HEAD -- " + path,
        ) from None


def hash_of(data: bytes | None) -> str:
    """Fingerprint of bytes; empty for a file that is not there."""
    return hashlib.sha256(data).hexdigest() if data is not None else ""
