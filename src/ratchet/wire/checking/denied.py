"""What would act if a tree were run: neither the wired one nor the one before may."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ratchet.wire.choices import Choices
from ratchet.wire.entry.javascript import program_paths
from ratchet.wire.entry.javascript_file import is_javascript, javascript_files
from ratchet.wire.entry.javascript_import_graph import ImportGraph
from ratchet.wire.entry.javascript_marks import JavascriptMarks
from ratchet.wire.entry.modules import Modules
from ratchet.wire.entry.side_effects import Marks
from ratchet.wire.facts import Place, RepositoryLook, SideEffect
from ratchet.wire.former.locate import pairs_of
from ratchet.wire.former.record import FormerRecord, FormerRecordedFile

_IMPORT = re.compile(
    r"\s*(?:import|from)\s+ratchet\b|[^\n(]*(?:from|require\()\s*[\"']agent-ratchet"
)
_SETTING_UP = re.compile(r"(?:^|\.)(?:[A-Z]\w*|get_or_create\w*|create_collection)$")
_MARK = re.compile(r"\bside_effects\s*=\s*True\b|\bsideEffects\s*:\s*true\b")


def without_marks(record: FormerRecord) -> FormerRecord:
    """A record without the marks of tools that act: what is undone by it leaves them denied."""
    files = tuple(_without_marks(one) for one in record.files)
    return msgspec.structs.replace(record, files=files)


def _without_marks(file: FormerRecordedFile) -> FormerRecordedFile:
    marks = {number for number, one in enumerate(file.pieces) if _MARK.search(one.inserted)}
    if not marks:
        return file
    for opening, closing in pairs_of(file.pieces, file.path).items():
        if marks & {opening, closing}:
            marks |= {opening, closing}
    marks |= {number for number, one in enumerate(file.pieces) if _IMPORT.match(one.inserted)}
    rest = tuple(one for number, one in enumerate(file.pieces) if number not in marks)
    return msgspec.structs.replace(file, pieces=rest)


def would_act(
    root: Path, record: FormerRecord, facts: RepositoryLook, also: Sequence[str] = ()
) -> tuple[str, Place] | None:
    """The first call that would act if the tree were run, or None.

    Args:
        root: The tree.
        record: Of its wiring.
        facts: What a look found in this tree.
        also: Files that are imported, besides the entry's and those that the wiring made.

    Returns:
        What acts, and where. Files that functions other than tools write do not count.
    """
    if not record.entry_path.endswith(".py"):
        return _in_another_language(root, record, facts)
    entry = next((one for one in facts.entries if one.place.path == record.entry_path), None)
    if entry is None:
        return "the agent's entry, which is not found any more,", Place(record.entry_path)
    modules = Modules(root, record.project)
    starts = [one.path for one in record.files if one.created and one.path.endswith(".py")]
    reached = {path for one in [record.entry_path, *starts, *also] for path in modules.closure(one)}
    choices = Choices(record.project, record.agent, entry, record.run, (), may_run=record.may_run)
    marks = Marks(facts, modules, choices)
    marks.mark(reached)
    for change in marks.changes():
        data = (root / change.path).read_bytes()
        for piece in change.pieces:
            if _MARK.search(piece.text):
                line = data.count(b"\n", 0, piece.start) + 1
                text = data[piece.start :].lstrip().partition(b"\n")[0].decode(errors="replace")
                return f"`{text.strip()[:60]}`", Place(change.path, line)
    harmless = {one.place for one in facts.side_effects if _stays_inside(one)}
    for left in marks.left:
        if left.place.path in reached and left.place not in harmless:
            return left.what, left.place
    return None


def _in_another_language(
    root: Path, record: FormerRecord, facts: RepositoryLook
) -> tuple[str, Place] | None:
    """What acts in the files that a program of JavaScript or TypeScript leads to, unmarked."""
    files = {
        one.path: one for one in javascript_files(root, program_paths(root, facts, record.project))
    }
    starts = [one.path for one in record.files if one.created and is_javascript(one.path)]
    graph = ImportGraph(files.values())
    used = {path for one in (record.entry_path, *starts) for path in graph.reached(one)}
    entry = next((one for one in facts.entries if one.place.path == record.entry_path), None)
    if entry is None:
        return "the agent's entry, which is not found any more,", Place(record.entry_path)
    choices = Choices(record.project, record.agent, entry, record.run, (), may_run=record.may_run)
    marks = JavascriptMarks(root, facts, choices, files)
    marks.mark(used)
    for one in (*marks.marked, *marks.open):
        if not (_stays_inside(one) or marks.stays_inside(one)):
            return one.tool or one.within or one.what, one.place
    return None


def _stays_inside(one: SideEffect) -> bool:
    """Whether no tool leads to it, and it writes a file or only sets up a database's client."""
    if one.tool:
        return False
    return one.kind == "file write" or (
        one.kind == "database write" and _SETTING_UP.search(one.what) is not None
    )
