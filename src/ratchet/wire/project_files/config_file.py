"""`ratchet.toml` of a project: a new one, or the tables that are missing in one that exists."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from ratchet.types import InputError
from ratchet.wire.changes import Changes, FileChange, LeftAlone, Piece
from ratchet.wire.facts import Place
from ratchet.wire.project_files.toml_text import toml_text

NAME = "ratchet.toml"
_ORDER = (
    *("project", "agent", "prompt_files", "tasks", "evaluators", "objective", "run", "sandbox"),
    *("upstreams", "improve", "coach", "prove", "guardrails", "ship"),
)
_HEAD = "# How Ratchet runs, scores and improves this agent. Check it with: ratchet doctor\n\n"
_COMMENTS = {
    "agent": "What a rollout runs for each task.",
    "agent.path": "Folders that Python imports from.",
    "agent.model_base_url": "Variables that take the address of the gateway.",
    "prompt_files": "Prompts in files: read by the agent, improved by Ratchet.",
    "tasks": "What the agent is run on; one JSON object a line.",
    "tasks.split": "Shares to learn on, to choose by, and to prove on.",
    "evaluators": "What scores an answer; ratchet evaluators lists more.",
    "objective": "The score to improve.",
    "run": "How rollouts run.",
    "run.import_per_candidate": "Prompts bind at import: each candidate imports the agent anew.",
    "sandbox": "Where code that a model wrote runs.",
    "upstreams": "Providers behind the gateway; keys stay in variables.",
    "improve": "How it learns.",
    "improve.budget": "Where learning stops.",
    "coach": "The model that suggests changes.",
    "prove": "How much proof a change takes.",
    "ship": "How a proved change is tested and proposed. A line with # is a proposal to take up.",
    "ship.test": "Must pass before a branch is made.",
}


def config_file(root: Path, project: str, tables: dict[str, Any], tests: str = "") -> Changes:
    """Write the tables into a project's `ratchet.toml`; what it has already stays as it is.

    Args:
        root: The repository.
        project: Folder of the project; `.` for the repository.
        tables: What the file should hold.
        tests: Command of the project's own tests, which is proposed for releases. It is not set:
            whether they pass is seen when the wiring is checked.

    Raises:
        InputError: The file that exists is not TOML.
    """
    path = NAME if project == "." else f"{project}/{NAME}"
    ordered = dict(sorted(tables.items(), key=lambda one: _rank(one[0])))
    file = root / path
    comments = _COMMENTS
    if tests and "ship" not in ordered:
        ordered["ship"] = {}
        comments = {**_COMMENTS, "ship.": f"test = {json.dumps(test_of_releases(tests))}"}
    if not file.exists():
        text = _HEAD + toml_text(ordered, comments)
        return Changes((FileChange(path, "The project's settings.", content=text),))
    try:
        data = file.read_bytes()
        text = data.decode("utf-8-sig")
        present = tomllib.loads(text.replace("\r\n", "\n"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not TOML: {error}.", hint="Fix it, or rename it.") from None
    missing = {key: value for key, value in ordered.items() if key not in present}
    left = tuple(
        LeftAlone(
            f"[{key}]", Place(path, _line(text, key)), f"It is there already, without {lack}."
        )
        for key in ordered
        if (lack := _lacking(present.get(key), ordered[key])) and key in present
    )
    if not missing:
        return Changes(left_alone=left)
    end = "\r\n" if b"\r\n" in data else "\n"
    gap = "" if not data or data.endswith(b"\n") else "\n"
    # A key that is no table would fall into the last table of the file: each is a table here.
    added = (gap + "\n" + toml_text(missing, comments)).replace("\n", end)
    piece = Piece(len(data), len(data), added)
    change = FileChange(path, "Tables that the settings lack.", (piece,))
    return Changes((change,), left)


def test_of_releases(command: str) -> str:
    """A command of tests as `[ship] test` has it: by the agent's interpreter."""
    program, gap, rest = command.partition(" ")
    return f"{{python}}{gap}{rest}" if program in ("python", "python3") else command


def _rank(key: str) -> int:
    return _ORDER.index(key) if key in _ORDER else len(_ORDER)


def _lacking(present: Any, wanted: Any) -> str:
    """Keys of a table, or entries of a list of tables, that are missing; in words."""
    if isinstance(wanted, dict) and isinstance(present, dict):
        missing = [f"{key} = {json.dumps(wanted[key])}" for key in wanted if key not in present]
        return ", ".join(missing)
    if isinstance(wanted, list) and isinstance(present, list):
        names = [one for one in wanted if one not in present]
        return ", ".join(json.dumps(one, ensure_ascii=False) for one in names)
    return ""


def _line(text: str, key: str) -> int:
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip("[ ").startswith(key):
            return number
    return 0
