"""The step of the wiring that declares prompts."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import Any

from ratchet.types import InputError
from ratchet.wire.changes import Changes, FileChange, LeftAlone, StepChanges
from ratchet.wire.choices import Choices, PromptChoice
from ratchet.wire.codemods.bind_javascript import bind_javascript
from ratchet.wire.codemods.python_prompts import PromptEdits
from ratchet.wire.entry.javascript_file import is_javascript
from ratchet.wire.entry.python_file import PythonFile
from ratchet.wire.facts import RepositoryLook


def bind_prompts(root: Path, look: RepositoryLook, choices: Choices) -> StepChanges:
    """Declare each prompt as its choice says.

    What the agent sends to its model stays the same to the byte.

    Args:
        root: The repository.
        look: Its facts.
        choices: What is wired.
    """
    left: list[LeftAlone] = []
    by_file: dict[str, list[PromptChoice]] = {}
    files: list[dict[str, Any]] = []
    for choice in choices.prompts:
        if choice.way == "code":
            by_file.setdefault(choice.prompt.place.path, []).append(choice)
        elif choice.way == "file":
            files.append(_prompt_file(choice, choices.project))
        elif choice.way == "leave":
            left.append(LeftAlone(choice.name, choice.prompt.place, choice.reason))
    changes: list[FileChange] = []
    at_import = bool(files)
    own = _own_ratchet(root, choices.project)
    scripts = {path: by_file.pop(path) for path in list(by_file) if is_javascript(path)}
    bound = bind_javascript(root, scripts) if scripts else Changes()
    for path, prompts in sorted(by_file.items()):
        try:
            if own:
                raise InputError(f"`import ratchet` would find {own}; rename it first.")
            if not path.endswith(".py"):
                raise InputError(f"{path} is no Python module: the gateway can bind it.")
            file = PythonFile(path, (root / path).read_bytes())
        except (OSError, InputError) as error:
            why = getattr(error, "message", str(error))
            left += [LeftAlone(one.name, one.prompt.place, why) for one in prompts]
            continue
        edits = PromptEdits(file)
        for one in prompts:
            why = edits.bind(one)
            if why:
                left.append(LeftAlone(one.name, one.prompt.place, why))
        if edits.bound:
            names = ", ".join(edits.bound)
            purpose = f"Declares {names}; the text stays the same."
            changes.append(FileChange(path, purpose, edits.pieces()))
            at_import |= edits.at_import
    config: dict[str, Any] = {}
    if files:
        config["prompt_files"] = files
    if at_import:
        config["run"] = {"import_per_candidate": True}
    whole = Changes((*changes, *bound.files), (*left, *bound.left_alone))
    return StepChanges(whole, config)


def _own_ratchet(root: Path, project: str) -> str:
    """A module of the repository's own that hides ours; empty if there is none."""
    for folder in dict.fromkeys((project, f"{project}/src", ".", "src")):
        for name in ("ratchet.py", "ratchet/__init__.py"):
            if (root / folder / name).is_file():
                return PurePosixPath(folder, name).as_posix()
    return ""


def _prompt_file(choice: PromptChoice, project: str) -> dict[str, Any]:
    """An entry of `[[prompt_files]]`."""
    site = choice.prompt
    path = PurePosixPath(os.path.relpath(site.place.path, project)).as_posix()
    fields = [part.field for part in site.parts if part.field]
    entry: dict[str, Any] = {"path": path}
    if choice.name != PurePosixPath(path).stem:
        entry["name"] = choice.name
    return {**entry, "fields": fields} if fields else entry
