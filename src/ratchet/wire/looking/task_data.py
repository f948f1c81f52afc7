"""Data of a repository that could become tasks: tables and lists with inputs, some with answers."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Sequence

from ratchet.curate.answer_names import ANSWERS, INPUTS, plain_name
from ratchet.curate.csv_rows import CsvRows
from ratchet.wire.facts import Place, TaskDataSite
from ratchet.wire.looking.files import RepositoryFiles, standing_of
from ratchet.wire.looking.program import Program
from ratchet.wire.looking.syntax import (
    CodeModule,
    Invocation,
    MappingLiteral,
    SequenceLiteral,
    Syntax,
    TextTemplate,
    TextValue,
    last_name,
)

MAX_TABLES = 400
"""Files of data that are opened at most."""
HEAD = 200_000
"""Bytes of a table from which its columns are told."""
LEAST_ROWS = 2

_ENDINGS = {"csv": "csv", "tsv": "tsv", "jsonl": "jsonl", "ndjson": "jsonl", "json": "json"}
_PLACE = re.compile(r"data|eval|test|bench|golden|example|sample|question|task|case|fixture", re.I)
_RESULTS = re.compile(r"result|output|prediction|response|log", re.I)
_SETTINGS = re.compile(
    r"package(?:-lock)?\.json|tsconfig.*|.*\.lock|.*\.schema\.json|.*config.*\.json|manifest\.json"
    r"|langgraph\.json|components\.json|vercel\.json|.*\.ipynb",
    re.I,
)
_WEAK_INPUT = {
    *("text", "content", "message", "messages", "email", "document", "title", "description"),
    *("body", "sentence", "context", "topic", "comment", "review"),
}
"""Columns that are inputs if another one holds the answers."""
_CLASSES = {"category", "intent", "sentiment", "class", "topic", "priority", "type"}
"""Columns that are answers if the input is a text to be classified, and no question."""
_CATALOGUE = {
    "price",
    "unitprice",
    "sku",
    "brand",
    "stock",
    "quantity",
    "imageurl",
    "rating",
    "isbn",
}
"""Columns of lists of goods: their descriptions and categories are no tasks."""
_INPUTS_ALONE = re.compile(r"(?:eval|test|task|bench)\w*[_/-](?:\w*[_-])?inputs?\.\w+$", re.I)
"""Tables that say by their name that they hold what an evaluation asks."""
_QUESTIONS = {"question", "query", "prompt", "instruction", "task", "problem", "goal", "q"}


def find_task_data(
    files: RepositoryFiles, program: Program, dead: dict[str, str]
) -> Iterator[TaskDataSite]:
    """Data with columns that look like inputs, those with answers first.

    Rows are counted and columns named; no value is kept.

    Args:
        files: Files of the repository; those of secrets are not among them.
        program: Its code, for lists of examples.
        dead: Files that are not the agent's, with the reason.
    """
    found = [*_tables(files)]
    for module in program.modules:
        if not dead.get(module.path, "").startswith(("legacy", "generated")):
            found += _lists(module)
    yield from sorted(found, key=lambda one: (-one.confidence, one.place))


def _tables(files: RepositoryFiles) -> Iterator[TaskDataSite]:
    paths = [
        path
        for path in files.paths
        if path.rpartition(".")[2].lower() in _ENDINGS
        and not _SETTINGS.fullmatch(path.rpartition("/")[2])
        and standing_of(path).kind != "legacy"
    ]
    paths.sort(key=lambda path: (not _PLACE.search(path), path.count("/"), path))
    for path in paths[:MAX_TABLES]:
        form = _ENDINGS[path.rpartition(".")[2].lower()]
        text, whole = files.head(path, HEAD)
        if form == "json" and not whole:
            text = files.text(path) or ""
        rows = _rows(form, text, whole)
        columns = _columns(rows)
        site = _site(Place(path), form, columns, len(rows), whole or form == "json")
        if site is not None:
            yield site


def _rows(form: str, text: str, whole: bool) -> list[dict[str, object]]:
    """Rows of a table; of one that was cut, those before the cut."""
    try:
        if form in ("csv", "tsv"):
            usual = "\t" if form == "tsv" else ","
            lines = list(io.StringIO(text, newline=""))
            found = CsvRows(lines if whole else lines[:-1], usual, HEAD)
            return [dict(row.cells) for row in found if not row.error]
        if form == "jsonl":
            lines = [line for line in text.splitlines() if line.strip()]
            values = [json.loads(line) for line in (lines if whole else lines[:-1])]
            return [one for one in values if isinstance(one, dict)]
        return _of_json(json.loads(text))
    except (ValueError, RecursionError):
        return []


def _of_json(data: object) -> list[dict[str, object]]:
    """A list of objects, alone or under a key, or an object of columns."""
    if isinstance(data, list):
        return [one for one in data if isinstance(one, dict)]
    if not isinstance(data, dict):
        return []
    lists = [one for one in data.values() if isinstance(one, list) and len(one) >= LEAST_ROWS]
    of_rows = [one for one in lists if all(isinstance(row, dict) for row in one)]
    if of_rows:
        return _of_json(max(of_rows, key=len))
    size = len(lists[0]) if lists else 0
    if len(lists) > 1 and all(len(one) == size for one in lists):
        columns = {key: one for key, one in data.items() if isinstance(one, list)}
        return [{key: one[row] for key, one in columns.items()} for row in range(size)]
    return []


def _columns(rows: Sequence[dict[str, object]]) -> list[str]:
    """Keys that most rows have, with a value of text, a list or an object."""
    counts: dict[str, int] = {}
    for row in rows:
        for key, value in row.items():
            if value not in (None, "", [], {}):
                counts[key] = counts.get(key, 0) + 1
    return [key for key, count in counts.items() if 2 * count > len(rows)]


def _site(
    place: Place, form: str, columns: Sequence[str], rows: int, whole: bool
) -> TaskDataSite | None:
    """The fact, if columns look like inputs."""
    plain = {one: plain_name(one) for one in columns}
    inputs = tuple(one for one, name in plain.items() if name in INPUTS)
    asks = any(plain[one] in _QUESTIONS for one in inputs)
    answers = ANSWERS if asks else ANSWERS | _CLASSES
    expected = tuple(one for one, name in plain.items() if name in answers and one not in inputs)
    if not inputs and expected and not _CATALOGUE & set(plain.values()):
        inputs = tuple(
            one for one, name in plain.items() if name in _WEAK_INPUT and one not in expected
        )
    if not inputs and _INPUTS_ALONE.search(place.path):
        inputs = tuple(one for one in columns if one not in expected)
    if not inputs or rows < LEAST_ROWS:
        return None
    confidence = 0.9 if expected else 0.6
    reason = f"inputs by their names: {', '.join(inputs)}; " + (
        f"answers by their names: {', '.join(expected)}" if expected else "no column of answers"
    )
    if _RESULTS.search(place.path.rpartition("/")[0] or place.path):
        confidence -= 0.3
        reason += "; by its place it may hold results of runs"
    elif not _PLACE.search(place.path) and not place.line:
        confidence -= 0.2
    return TaskDataSite(place, form, rows, whole, inputs, expected, round(confidence, 2), reason)


def _lists(module: CodeModule) -> Iterator[TaskDataSite]:
    """Lists of examples in code: of dicts, or of calls with keywords."""
    seen: set[int] = set()
    for scope in module.scope.walk():
        values = [one.value for bounds in scope.bindings.values() for one in bounds]
        values += [one for call in scope.invocations for one in call.arguments]
        values += [one for call in scope.invocations for one in call.keywords.values()]
        values += scope.returns
        for value in values:
            if not isinstance(value, SequenceLiteral) or id(value) in seen:
                continue
            seen.add(id(value))
            rows = [row for one in value.items if (row := _row(one))]
            if len(rows) == len(value.items):
                columns = _columns(rows)
                place = Place(module.path, value.line)
                site = _site(place, "few-shot list", columns, len(rows), True)
                if site is not None and site.expected:
                    yield site


def _row(syntax: Syntax) -> dict[str, object]:
    """Keys of one example with their literals; empty if it is none."""
    while (
        isinstance(syntax, Invocation)
        and not syntax.keywords
        and last_name(syntax.function) == "with_inputs"
    ):
        syntax = getattr(syntax.function, "base", syntax.function)
    if isinstance(syntax, MappingLiteral):
        given = [(k.value, v) for k, v in syntax.entries if isinstance(k, TextValue)]
    elif isinstance(syntax, Invocation):
        given = list(syntax.keywords.items())
    else:
        return {}
    if any(key == "role" for key, _ in given):
        return {}  # messages of a conversation
    return {
        key: True
        for key, value in given
        if isinstance(value, (TextValue, TextTemplate, SequenceLiteral, MappingLiteral))
    }
