"""The project in a check's copy: its first task, a made-up one where it has none, its settings."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any


def without_prompt_files(file: Path) -> None:
    """Let `ratchet.toml` of the copy declare no files: there they are read as they are."""
    lines, skipped = [], False
    for line in file.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.startswith("["):
            skipped = line.startswith("[[prompt_files]]")
        if not skipped:
            lines.append(line)
    file.write_text("".join(lines), encoding="utf-8")


def first_input(folder: Path) -> Any:
    """The input of a project's first task; None without tasks."""
    settings = tomllib.loads((folder / "ratchet.toml").read_text(encoding="utf-8"))
    file = folder / settings.get("tasks", {}).get("file", "tasks.jsonl")
    try:
        with file.open(encoding="utf-8-sig") as lines:
            first = json.loads(next(lines))
    except (OSError, ValueError, StopIteration):
        return None
    return first.get("input") if isinstance(first, dict) else None


def with_a_task(folder: Path) -> bool:
    """Give a copy without tasks a made-up one; return whether it did."""
    settings = tomllib.loads((folder / "ratchet.toml").read_text(encoding="utf-8"))
    tasks = settings.get("tasks", {})
    file = folder / tasks.get("file", "tasks.jsonl")
    if "dataset" in tasks or file.exists():
        return False
    file.write_text(json.dumps({"input": "What can you do for me today?"}) + "\n")
    return True
