"""Starter tasks: rows of data in the repository, or inputs that it shows. None is invented."""

from __future__ import annotations

import ast
import itertools
import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from ratchet.curate.csv_rows import CsvRows
from ratchet.curate.text_file import is_undecoded, open_text, read_text
from ratchet.types import InputError
from ratchet.wire.choices import Choices
from ratchet.wire.facts import RepositoryLook, TaskDataSite
from ratchet.wire.recommending.choosing import within

MOST = 500
"""Tasks that are taken from data."""
SHOWN = 12
"""Inputs that are taken from code and a README."""
GIT_S = 10.0
"""Seconds for one question to git."""
LONGEST = 20_000
"""Characters of a value; longer rows are left out."""

LARGEST = 20_000_000
"""Bytes of a JSON document or a module that is read for its rows."""

_QUOTED = re.compile(r"[\"“`']([A-Z][^\n\"“”`<>|]{11,200}\?)[\"”`']")
_TAG = re.compile(r"<[^<>]*>")
_USER = re.compile(r"^\W*(?:user|human|you|customer)\b[\s*_]*(?:>>|:)[\s*_]*(.{8,300})$", re.I)
_OTHER = re.compile(r"\b(?:agent|assistant|bot|chatbot|ai|model|system)\b[\s*_]*(?:>>|:)", re.I)
_CALLS = frozenset(
    {"kickoff", "invoke", "ainvoke", "run", "arun", "run_sync", "ask", "chat", "answer", "query"}
)


class StarterTasks(msgspec.Struct, frozen=True):
    """Tasks for the first runs."""

    tasks: tuple[dict[str, Any], ...]
    """Each with `input`, where there is one `expected`, and `metadata` with its `source`."""
    source: str
    """Where they come from, in words; empty if there are none."""
    answered: bool
    """Whether they have expected answers."""


def find_tasks(root: Path, look: RepositoryLook, choices: Choices) -> StarterTasks:
    """The best tasks that a repository has for an entry.

    Data with answers comes before data without, and that before inputs in code and README.

    Args:
        root: The repository.
        look: Its facts.
        choices: The project and the entry.
    """
    here = choices.project
    others = [one.path for one in look.members if one.path not in (here, ".")]
    sites = [
        site
        for site in look.task_data
        if within(site.place.path, here)
        or not any(within(site.place.path, other) for other in others)
    ]
    sites.sort(
        key=lambda one: (
            not within(one.place.path, here),
            not one.expected,
            -one.confidence,
            one.place,
        )
    )
    for site in sites:
        if _is_ignored(root, site.place.path):
            continue
        tasks, cleaned = _cleaned(itertools.islice(_tasks_of(root, site), MOST))
        if tasks:
            source = f"{len(tasks)} {'row' if len(tasks) == 1 else 'rows'} of {site.place}"
            if cleaned:
                source += f", {cleaned} of them with secrets or personal data redacted"
            return StarterTasks(tasks, source, bool(site.expected))
    shown, _ = _cleaned(itertools.islice(_distinct(_shown_inputs(root, choices)), SHOWN))
    source = "inputs that the code and the README show; check them" if shown else ""
    return StarterTasks(shown, source, answered=False)


def _cleaned(tasks: Iterable[dict[str, Any]]) -> tuple[tuple[dict[str, Any], ...], int]:
    """Tasks without secrets and personal data, and how many held some.

    A task whose answer holds some is left out: no output could match what was redacted.
    """
    from ratchet.observe.redaction import Redactor

    redactor = Redactor()
    kept, changed = [], 0
    for task in tasks:
        if redactor.value(task.get("expected")) != task.get("expected"):
            continue
        given = redactor.value(task["input"])
        changed += given != task["input"]
        kept.append({**task, "input": given})
    return tuple(kept), changed


def _is_ignored(root: Path, path: str) -> bool:
    """Whether git keeps a file out of the repository: it is not to be committed as a copy."""
    if not (root / ".git").exists():
        return False
    try:
        asked = subprocess.run(
            ["git", "check-ignore", "-q", "--", path],
            cwd=root,
            capture_output=True,
            timeout=GIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return True  # unknown: rather none than a leak
    return asked.returncode == 0


def _tasks_of(root: Path, site: TaskDataSite) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(_rows(root / site.place.path, site), 1):
        given = {key: row.get(key) for key in site.inputs}
        if any(value in (None, "") for value in given.values()):
            continue
        task: dict[str, Any] = {
            "input": next(iter(given.values())) if len(given) == 1 else given,
        }
        if site.expected:
            answers = {key: row.get(key) for key in site.expected}
            if any(value in (None, "") for value in answers.values()):
                continue
            task["expected"] = next(iter(answers.values())) if len(answers) == 1 else answers
        task["metadata"] = {"source": f"{site.place.path}#{number}"}
        if len(json.dumps(task, default=str)) <= LONGEST:
            yield task


def _rows(file: Path, site: TaskDataSite) -> Iterator[dict[str, Any]]:
    """Rows of a file, up to the first that cannot be read."""
    try:
        if site.format in ("csv", "tsv", "jsonl"):
            with open_text(file) as text_file:
                if site.format == "jsonl":
                    yield from _json_lines(text_file.lines())
                else:
                    usual = "\t" if site.format == "tsv" else ","
                    rows = CsvRows(text_file.lines(), usual, LARGEST)
                    for row in rows:
                        if not row.error and not any(map(is_undecoded, row.cells.values())):
                            yield row.cells
        elif file.stat().st_size <= LARGEST:
            text, _ = read_text(file)
            if is_undecoded(text):
                return
            yield from _dicts(json.loads(text)) if site.format == "json" else _listed(text, site)
    except (OSError, ValueError, RecursionError, InputError):
        return


def _json_lines(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if is_undecoded(line):
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield row


def _dicts(found: Any) -> Iterator[dict[str, Any]]:
    """The longest list of objects in a JSON document."""
    lists = [found] if isinstance(found, list) else []
    if isinstance(found, dict):
        lists = [value for value in found.values() if isinstance(value, list)]
    rows = max(lists, key=len, default=[])
    yield from (row for row in rows if isinstance(row, dict))


def _listed(text: str, site: TaskDataSite) -> Iterator[dict[str, Any]]:
    """Rows of a list of examples in Python code."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.List | ast.Tuple) and node.lineno >= site.place.line > 0:
            try:
                rows = ast.literal_eval(node)
            except ValueError:
                continue
            found = [row for row in rows if isinstance(row, dict) and set(site.inputs) <= set(row)]
            if found:
                yield from found
                return


def _shown_inputs(root: Path, choices: Choices) -> Iterator[dict[str, Any]]:
    entry = root / choices.entry.place.path
    if entry.suffix == ".py":
        yield from _inputs_in_code(root, entry)
    folder = root / choices.project
    for readme in (*sorted(folder.glob("README*")), *sorted(root.glob("README*"))):
        if readme.is_file() and not readme.is_symlink():
            yield from _inputs_in_text(root, readme)


def _inputs_in_code(root: Path, file: Path) -> Iterator[dict[str, Any]]:
    """Literal arguments of calls that run an agent, and dictionaries named `inputs`."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, SyntaxError):
        return
    for node in ast.walk(tree):
        given: list[ast.expr] = []
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id in ("inputs", "question", "query", "topic")
            for target in node.targets
        ):
            given = [node.value]
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if name in _CALLS:
                given = [*node.args[:1], *(k.value for k in node.keywords if k.arg == "inputs")]
        for value in given:
            try:
                found = ast.literal_eval(value)
            except ValueError:
                continue
            if _is_input(found):
                path = file.relative_to(root).as_posix()
                yield {"input": found, "metadata": {"source": f"{path}:{value.lineno}"}}


def _is_input(found: Any) -> bool:
    if isinstance(found, str):
        return len(found.split()) >= 3
    return isinstance(found, dict) and bool(found) and all(isinstance(key, str) for key in found)


def _inputs_in_text(root: Path, file: Path) -> Iterator[dict[str, Any]]:
    """What a user says in a README's conversations, and questions in quotes.

    Other questions of a README are addressed to its reader, and those of an agent to its user.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")[:200_000]
    except (OSError, UnicodeDecodeError):
        return
    arrows = re.search(r"^\s*<- ", text, re.MULTILINE)  # a conversation as -> and <-
    for number, line in enumerate(text.splitlines(), 1):
        bare = _TAG.sub("", line).strip()
        said = _USER.match(bare) or (arrows and re.match(r"-> (.{8,300})$", bare))
        if said:
            found = [said[1].strip(" *_\"“”'`")]
        elif bare.startswith("#") or _OTHER.search(bare):
            continue
        else:
            found = [match[1] for match in _QUOTED.finditer(bare)]
        source = f"{file.relative_to(root).as_posix()}:{number}"
        for one in found:
            if _is_input(one):
                yield {"input": one, "metadata": {"source": source}}


def _distinct(tasks: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    seen: set[str] = set()
    for task in tasks:
        key = json.dumps(task["input"], sort_keys=True, default=str)
        if key not in seen:
            seen.add(key)
            yield task
