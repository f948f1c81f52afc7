"""Starter tasks: rows of data in the repository, or inputs that it shows. None is invented."""

from __future__ import annotations

import ast
import csv
import io
import itertools
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from ratchet.wire.choices import Choices
from ratchet.wire.facts import RepositoryLook, TaskDataSite
from ratchet.wire.recommending.choosing import within

MOST = 500
"""Tasks that are taken from data."""
SHOWN = 12
"""Inputs that are taken from code and a README."""
LONGEST = 20_000
"""Characters of a value; longer rows are left out."""

_QUESTION = re.compile(r"[A-Z0-9][^\n\"'`*_<>|]{11,200}\?")
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
    sites = [site for site in look.task_data if within(site.place.path, choices.project)]
    sites += [site for site in look.task_data if site not in sites and choices.project != "."]
    sites.sort(key=lambda one: (not one.expected, -one.confidence, one.place))
    for site in sites:
        tasks = tuple(itertools.islice(_tasks_of(root, site), MOST))
        if tasks:
            source = f"{len(tasks)} rows of {site.place}"
            return StarterTasks(tasks, source, bool(site.expected))
    shown = tuple(itertools.islice(_distinct(_shown_inputs(root, choices)), SHOWN))
    source = "inputs that the code and the README show" if shown else ""
    return StarterTasks(shown, source, answered=False)


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
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return
    if site.format in ("csv", "tsv"):
        delimiter = "\t" if site.format == "tsv" else ","
        yield from csv.DictReader(io.StringIO(text), delimiter=delimiter)
    elif site.format == "jsonl":
        for line in text.splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict):
                yield row
    elif site.format == "json":
        try:
            yield from _dicts(json.loads(text))
        except ValueError:
            return
    else:
        yield from _listed(text, site)


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
    except (OSError, SyntaxError, UnicodeDecodeError):
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
    try:
        text = file.read_text(encoding="utf-8-sig")[:200_000]
    except (OSError, UnicodeDecodeError):
        return
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#"):
            continue  # headings of a FAQ are questions to the reader
        for match in _QUESTION.finditer(line):
            source = f"{file.relative_to(root).as_posix()}:{number}"
            yield {"input": match[0].strip(), "metadata": {"source": source}}


def _distinct(tasks: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    seen: set[str] = set()
    for task in tasks:
        key = json.dumps(task["input"], sort_keys=True, default=str)
        if key not in seen:
            seen.add(key)
            yield task
