"""A second wiring: keeps what the user edited, and offers what is new."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from ratchet._version import __version__
from ratchet.types import InputError
from ratchet.wire.changes import Changes, FileChange, Piece
from ratchet.wire.choices import Choices
from ratchet.wire.facts import EntryPoint, RepositoryLook
from ratchet.wire.former.fitting import Misfit, agent_misfits, matched_prompts
from ratchet.wire.former.locate import pairs_of
from ratchet.wire.former.plan import FormerPlan, WiringStep, check, make_plan, read, record_path
from ratchet.wire.former.record import (
    FormerRecord,
    FormerRecordedFile,
    RecordedPiece,
    decoded,
    encoded,
    hash_of,
    read_record,
    record_text,
    recorded_file,
    recorded_prompt,
    small_pieces,
)
from ratchet.wire.former.taken_back import carried
from ratchet.wire.former.tokens import fingerprint
from ratchet.wire.former.undo import FormerUndone, KeptPlace, find_record, undone_of
from ratchet.wire.former.view import view
from ratchet.wire.looking.former_look import look
from ratchet.wire.project_files.config_file import NAME as CONFIG
from ratchet.wire.project_files.config_file import config_file

Choose = Callable[[RepositoryLook, str], Choices]
"""Decides for a repository and the folder of a project in it, as `recommend` does."""


class Again(msgspec.Struct, frozen=True):
    """What a second wiring would do."""

    root: str
    """The repository: what the plan's paths are relative to."""
    plan: FormerPlan
    """Of what is new; without changes if nothing is."""
    kept: tuple[KeptPlace, ...]
    """What the user edited, which stays."""
    misfits: tuple[Misfit, ...]
    """What no longer fits the code."""


def again(
    root: Path, choose: Choose | None = None, steps: Sequence[WiringStep] | None = None
) -> Again:
    """Plan a second wiring of a repository.

    The repository is looked at as it would be without the first one. Of the plan that is made for
    it, what the record names already is left out, also where the user has changed or removed it.

    Args:
        root: The repository, or the folder of a project in it.
        choose: Instead of Ratchet's recommendation.
        steps: As for `make_plan`.

    Raises:
        InputError: There is no record of a wiring, or several and none in this folder; or as for
            `make_plan`.
    """
    root, path = find_record(root)
    record = read_record(decoded(read(root, path) or b""), path)
    undone = undone_of(root, record)
    without = undone_of(root, record, force=True)
    with view(root, {**without.contents, path: None}) as folder:
        found = look(folder)
        choices = _as_before(
            (choose or _recommended)(found, record.project), found.entries, record, undone
        )
        plan = make_plan(folder, found, choices, steps)
        changes = _new(root, folder, plan, record, undone)
    misfits = tuple(agent_misfits(root, record, found, undone.moved))
    if not changes:
        left = Changes(left_alone=plan.left_alone)
        return Again(str(root), FormerPlan(choices, left, plan.config, {}), undone.kept, misfits)
    own = _record_change(root, path, record, choices, changes)
    whole = Changes((*changes, own), plan.left_alone)
    before = {one.path: read(root, one.path) for one in whole.files}
    check(whole, before)
    hashes = {one: hash_of(data) for one, data in before.items()}
    return Again(str(root), FormerPlan(choices, whole, plan.config, hashes), undone.kept, misfits)


def _recommended(found: RepositoryLook, project: str) -> Choices:
    from ratchet.wire.recommending import recommend

    choices = recommend(found, project).choices
    if choices is None:
        raise InputError(
            f"No agent is found in {project} any more.", hint="See what changed: ratchet doctor"
        )
    return choices


def _as_before(
    choices: Choices, entries: Sequence[EntryPoint], record: FormerRecord, undone: FormerUndone
) -> Choices:
    """Choices with the names and answers of the first wiring; new prompts get new names."""
    known = matched_prompts(record, (one.prompt for one in choices.prompts), undone.moved)
    taken = {one.name for one in record.prompts}
    prompts = []
    for one in choices.prompts:
        before = known.get((one.prompt.place, one.prompt.name))
        name = before.name if before else one.name
        number = 2
        while before is None and name in taken:
            name, number = f"{one.name}_{number}", number + 1
        taken.add(name)
        way = before.way if before else one.way
        prompts.append(msgspec.structs.replace(one, name=name, way=way))
    path = undone.moved.get(record.entry_path, record.entry_path)
    entries = [one for one in entries if (one.place.path, one.name) == (path, record.entry)]
    return msgspec.structs.replace(
        choices,
        agent=record.agent,
        entry=entries[0] if entries else choices.entry,
        run=record.run,
        may_run=record.may_run,
        workflow=record.workflow,
        prompts=tuple(prompts),
    )


def _new(
    root: Path, folder: Path, plan: FormerPlan, record: FormerRecord, undone: FormerUndone
) -> list[FileChange]:
    """What a plan for the repository without its wiring has, and the repository with it lacks."""
    known = {undone.moved.get(one.path, one.path): one for one in record.files}
    found = []
    for change in plan.changes.files:
        if change.path == record_path(record.project):
            continue
        recorded = known.get(change.path)
        if change.content is not None:
            made = _new_content(root, change, recorded, plan, record)
        else:
            made = _new_pieces(root, folder, change, recorded, undone)
        if made is not None:
            found.append(made)
    return found


def _new_content(
    root: Path,
    change: FileChange,
    recorded: FormerRecordedFile | None,
    plan: FormerPlan,
    record: FormerRecord,
) -> FileChange | None:
    data = read(root, change.path)
    if data is None:
        return None if recorded is not None else change  # the user has removed it
    if recorded is None or fingerprint(change.content or "", change.path) == recorded.created:
        return None
    if fingerprint(decoded(data), change.path) == recorded.created:
        piece = Piece(0, len(data), change.content or "")
        return FileChange(change.path, change.purpose, (piece,))
    if change.path.rpartition("/")[2] == CONFIG:
        tables = config_file(root, record.project, plan.config).files
        return tables[0] if tables else None
    return None


def _new_pieces(
    root: Path,
    folder: Path,
    change: FileChange,
    recorded: FormerRecordedFile | None,
    undone: FormerUndone,
) -> FileChange | None:
    before = (folder / change.path).read_bytes()
    pieces = small_pieces(change.pieces, before)
    keys = _keys(recorded_file(change, before).pieces, change.path)
    had = Counter(_keys(recorded.pieces, recorded.path) if recorded else ())
    after = undone.files.get(change.path)
    text = decoded(read(root, change.path) or b"")
    new = []
    for piece, key in zip(pieces, keys, strict=True):
        if had[key]:
            had[key] -= 1
            continue
        start, end = (len(decoded(before[:at])) for at in (piece.start, piece.end))
        if after is not None:
            start, end = after.place_before(start), after.place_before(end)
        start, end = (len(encoded(text[:at])) for at in (start, end))
        new.append(Piece(start, end, piece.text + piece.moved))
    return FileChange(change.path, change.purpose, tuple(new)) if new else None


def _keys(pieces: Sequence[RecordedPiece], path: str) -> list[tuple[str, str]]:
    """What tells pieces apart; one that closes brackets is known by the one that opens them."""
    opener = {closing: opening for opening, closing in pairs_of(pieces, path).items()}
    moved = carried(pieces, path)
    keys = []
    for number, one in enumerate(pieces):
        other = pieces[opener[number]].inserted if number in opener else one.removed
        # A text that was moved may be another by now.
        keys.append((one.inserted.strip(), "" if number in moved else other))
    return keys


def _record_change(
    root: Path, path: str, record: FormerRecord, choices: Choices, changes: Sequence[FileChange]
) -> FileChange:
    """The record with what is new in it."""
    files = {one.path: one for one in record.files}
    for change in changes:
        old = files.get(change.path)
        data = read(root, change.path)
        if old is not None and old.created and data is not None:
            whole = change.pieces[0] if len(change.pieces) == 1 else None
            if whole is not None and (whole.start, whole.end) == (0, len(data)):
                made = fingerprint(whole.text, change.path)
                files[change.path] = msgspec.structs.replace(old, created=made)
            continue  # edited by the user: it is theirs now
        new = recorded_file(change, data)
        if old is not None:
            new = msgspec.structs.replace(old, pieces=(*old.pieces, *new.pieces))
        files[change.path] = new
    known = {one.name for one in record.prompts}
    prompts = tuple(recorded_prompt(one) for one in choices.prompts if one.name not in known)
    updated = msgspec.structs.replace(
        record,
        ratchet=__version__,
        prompts=(*record.prompts, *prompts),
        files=tuple(files.values()),
    )
    data = read(root, path) or b""
    piece = Piece(0, len(data), record_text(updated))
    return FileChange(path, "What was made, to take it back.", (piece,))
