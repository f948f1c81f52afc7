"""Declares prompts in files of JavaScript and TypeScript."""

from __future__ import annotations

from pathlib import Path

from ratchet.types import InputError
from ratchet.wire.changes import Changes, FileChange, LeftAlone
from ratchet.wire.choices import PromptChoice
from ratchet.wire.codemods.javascript_prompts import JavascriptPromptEdits
from ratchet.wire.entry.javascript_browser import BrowserFiles
from ratchet.wire.entry.javascript_file import read_file
from ratchet.wire.entry.package_import import PackageImport, is_module, package_dependency

_ELSE = " The gateway replaces it, where it is a system message."


def bind_javascript(root: Path, by_file: dict[str, list[PromptChoice]]) -> Changes:
    """Declare prompts with the npm package, and add it to the manifests.

    Args:
        root: The repository.
        by_file: The prompts of each file.
    """
    left: list[LeftAlone] = []
    changes: list[FileChange] = []
    browser = BrowserFiles(root)
    for path, prompts in sorted(by_file.items()):
        try:
            browser.refuse(path)
            file = read_file(root, path)
            edits = JavascriptPromptEdits(file, PackageImport(file, module=is_module(root, path)))
        except InputError as error:
            why = error.message + _ELSE
            left += [LeftAlone(one.name, one.prompt.place, why) for one in prompts]
            continue
        for one in prompts:
            if why := edits.bind(one):
                left.append(LeftAlone(one.name, one.prompt.place, why + _ELSE))
        if edits.bound:
            names = ", ".join(edits.bound)
            purpose = f"Declares {names}; the text stays the same."
            changes.append(FileChange(path, purpose, edits.pieces()))
    manifests, notes = package_dependency(root, [one.path for one in changes])
    return Changes((*changes, *manifests), (*left, *notes))
