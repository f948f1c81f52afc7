"""A wired project: its first task, a made-up one where it has none, and its settings."""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

QUESTION = "What can you do for me today?"
"""What a task asks where there is none."""


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
    try:
        with _task_file(folder, settings).open(encoding="utf-8-sig") as lines:
            first = json.loads(next(lines))
    except (OSError, ValueError, StopIteration):
        return None
    return first.get("input") if isinstance(first, dict) else None


def with_a_task(folder: Path) -> bool:
    """Give a copy without tasks a made-up one; return whether it did."""
    settings = tomllib.loads((folder / "ratchet.toml").read_text(encoding="utf-8"))
    file = _task_file(folder, settings)
    if "dataset" in settings.get("tasks", {}) or file.exists():
        return False
    entry = str(settings.get("agent", {}).get("entry", ""))
    file.write_text(json.dumps({"input": _made_up(folder, entry)}) + "\n")
    return True


def run_once(root: Path, project: str) -> str:
    """The command that runs a wired agent once: on a task, or on an input that fits it."""
    folder = root / project
    command = "ratchet run" if project == "." else f"ratchet run -C {shlex.quote(project)}"
    try:
        settings = tomllib.loads((folder / "ratchet.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        settings = {}
    if "dataset" in settings.get("tasks", {}) or _task_file(folder, settings).exists():
        return f"{command} --split all --limit 1"
    given = _made_up(folder, str(settings.get("agent", {}).get("entry", "")))
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return f"{command} {shlex.quote(text)}"


def _task_file(folder: Path, settings: dict[str, Any]) -> Path:
    return folder / str(settings.get("tasks", {}).get("file", "tasks.jsonl"))


def _made_up(folder: Path, entry: str) -> Any:
    """An input that fits the function that a rollout calls, by its annotations."""
    module, _, name = entry.partition(":")
    try:
        tree = ast.parse((folder / f"{module}.py").read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return QUESTION
    functions = (
        one for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    found = next((one for one in functions if one.name == name), None)
    if found is None:
        return QUESTION
    given = found.args.posonlyargs + found.args.args
    needed = given[: len(given) - len(found.args.defaults)]
    needed += [
        one
        for one, default in zip(found.args.kwonlyargs, found.args.kw_defaults, strict=True)
        if default is None
    ]
    values = {one.arg: _value(one.annotation) for one in needed}
    return next(iter(values.values())) if len(values) == 1 else values or QUESTION


def _value(annotation: ast.expr | None) -> Any:
    written = ast.unparse(annotation) if annotation else "str"
    kind = re.split(r"[\[|]", written.rpartition("typing.")[2])[0].strip()
    return _VALUES.get(kind.lower(), QUESTION)


_VALUES: dict[str, Any] = {
    "int": 1,
    "float": 0.5,
    "bool": True,
    "list": [QUESTION],
    "sequence": [QUESTION],
    "dict": {},
    "mapping": {},
    "none": None,
}
