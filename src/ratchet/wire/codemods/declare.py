"""Declares prompts in the source in place; what the agent sends stays the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

import msgspec

from ratchet.types import InputError
from ratchet.wire.changes import Changes, FileChange, LeftAlone
from ratchet.wire.codemods.javascript_file import ENDINGS, JavascriptFile, check_not_bundled
from ratchet.wire.codemods.javascript_prompts import JavascriptPromptEdits
from ratchet.wire.codemods.package_import import PackageImport, is_module
from ratchet.wire.codemods.python_file import PythonFile
from ratchet.wire.codemods.python_prompts import PromptEdits
from ratchet.wire.looking.inventory import Place


class PromptLiteral(msgspec.Struct, frozen=True):
    """A literal to declare."""

    name: str
    """Name of the resource, unique in the project: letters, digits, `_`, `-` and `.`."""
    path: str
    """Relative to the repository, with forward slashes."""
    start: int
    end: int
    """Byte span of the whole expression in the file as it is on disk."""


class Declared(msgspec.Struct, frozen=True):
    """The changes that declare the literals."""

    changes: Changes
    import_per_candidate: bool
    """Whether a text is read while its module is imported, so that `[run] import_per_candidate`
    must be set."""
    names: tuple[str, ...]
    """Prompts that these changes declare."""


def declare(
    root: Path, literals: Iterable[PromptLiteral], path: Sequence[str] = (".",)
) -> Declared:
    """Wrap literals in Python, JavaScript and TypeScript in `ratchet.prompt(…)`.

    Args:
        root: The repository.
        literals: What is declared.
        path: Folders that the agent's modules are imported from, relative to it.
    """
    by_file: dict[str, list[PromptLiteral]] = {}
    for literal in literals:
        by_file.setdefault(literal.path, []).append(literal)
    left: list[LeftAlone] = []
    changes: list[FileChange] = []
    names: list[str] = []
    at_import = False
    for file, prompts in sorted(by_file.items()):
        data = b""
        try:
            data = (root / file).read_bytes()
            edits = _edits(root, file, data, path)
        except (OSError, InputError) as error:
            why = getattr(error, "message", str(error))
            left += [_left(prompt, data, why) for prompt in prompts]
            continue
        for prompt in prompts:
            if why := edits.bind(prompt.name, prompt.start, prompt.end):
                left.append(_left(prompt, data, why))
        if edits.bound:
            purpose = f"Declares {', '.join(edits.bound)}; the texts stay the same."
            changes.append(FileChange(file, purpose, edits.pieces()))
            names += edits.bound
            at_import |= edits.at_import
    return Declared(Changes(tuple(changes), tuple(left)), at_import, tuple(names))


def _edits(
    root: Path, file: str, data: bytes, path: Sequence[str]
) -> PromptEdits | JavascriptPromptEdits:
    if PurePosixPath(file).suffix in ENDINGS:
        check_not_bundled(root, file, data)
        read = JavascriptFile(file, data)
        return JavascriptPromptEdits(read, PackageImport(read, module=is_module(root, file)))
    if not file.endswith(".py"):
        raise InputError(f"{file} is not a Python, JavaScript or TypeScript module.")
    for folder in dict.fromkeys([*path, ".", "src"]):
        for own in ("ratchet.py", "ratchet/__init__.py"):
            if (root / folder / own).is_file():
                raise InputError(f"`import ratchet` would find {folder}/{own}: rename that first.")
    return PromptEdits(PythonFile(file, data))


def _left(prompt: PromptLiteral, data: bytes, why: str) -> LeftAlone:
    line = data.count(b"\n", 0, prompt.start) + 1
    return LeftAlone(prompt.name, Place(prompt.path, line), why)
