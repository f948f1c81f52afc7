"""Labels by part: each field of an object is judged separately.

A score of 0.75 says that an answer is three quarters right, not whether it contradicts the label.
Where a label has a form that answers can be compared with, an object or one of a few texts, the
answers themselves are compared, whatever their form: an object that stands in a text is that
object. A wrong label is wrong in one field most of the time, and candidates that disagree elsewhere
agree on that one.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from ratchet.curate.refinement.results import Cell, Results, answer_key

PartPath: TypeAlias = tuple[str, ...]
"""Keys of a part of a label; empty for the whole label."""

FULL_MARKS = 0.999
"""Minimum score of an answer that is right in every part."""

ABSENT_PART = "\0absent"
"""The value of a part that an answer does not have."""

_FENCED = re.compile(r"```[\w-]*\n(.*?)```", re.DOTALL)


class LabelPart(msgspec.Struct, frozen=True):
    """A part of a task's label."""

    row: int
    """Row of the task in the results."""
    path: PartPath
    expected: str | None
    """Its key as an answer's; None where answers cannot be compared with it."""


def by_part(results: Results) -> tuple[Results, tuple[LabelPart, ...]]:
    """The results with each part of a label as a separate task, and the meaning of each row."""
    counts = Counter(
        answer_key(plain(task.expected)) for task in results.tasks if task.expected is not None
    )
    tasks, cells, parts = [], {}, []
    for row, task in enumerate(results.tasks):
        label = plain(task.expected)
        closed = not isinstance(label, str) or counts[answer_key(label)] > 1
        leaves = _leaves(label) if label is not None and closed else {}
        for path, expected in leaves.items() or {(): None}.items():
            id = "\0".join((task.id, *path))
            tasks.append(msgspec.structs.replace(task, id=id))
            key = answer_key(expected) if leaves else None
            parts.append(LabelPart(row, path, key))
            for candidate in results.candidates:
                cell = results.cells.get((task.id, candidate))
                if cell is not None:
                    cells[id, candidate] = cell if key is None else _part_of(cell, path, key)
    return Results(results.evaluator, tuple(tasks), results.candidates, cells), tuple(parts)


def plain(value: Any) -> Any:
    """A value as data: JSON in a text is parsed, even inside a code fence."""
    if not isinstance(value, str):
        return value
    fenced = _FENCED.search(value)
    for text in (value, fenced[1] if fenced else "", value[value.find("{") : value.rfind("}") + 1]):
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(parsed, (dict, list)):
            return parsed
    return value.strip()


def with_part(label: Any, path: PartPath, value: Any) -> Any:
    """A label with a part's value replaced, in the same form: an object stays an object."""
    if not path:
        parsed = plain(value)
        if isinstance(label, str):
            return value if isinstance(value, str) else json.dumps(parsed, ensure_ascii=False)
        return parsed
    changed = _with(plain(label), path, value)
    return json.dumps(changed, ensure_ascii=False) if isinstance(label, str) else changed


def changed_parts(before: Any, after: Any) -> dict[PartPath, tuple[Any, Any]]:
    """The parts of two labels that differ, with both values."""
    old, new = _leaves(plain(before)), _leaves(plain(after))
    return {
        path: (old.get(path), new.get(path))
        for path in {**old, **new}
        if old.get(path, ABSENT_PART) != new.get(path, ABSENT_PART)
    }


def _with(label: Mapping[str, Any], path: PartPath, value: Any) -> dict[str, Any]:
    first, *tail = path
    return {**label, first: _with(label[first], tuple(tail), value) if tail else value}


def _leaves(label: Any, path: PartPath = ()) -> dict[PartPath, Any]:
    if not isinstance(label, dict) or not label:
        return {path: label}
    return {
        inner: leaf
        for key, value in label.items()
        for inner, leaf in _leaves(value, (*path, key)).items()
    }


def _part_of(cell: Cell, path: PartPath, expected: str) -> Cell:
    """A candidate's value of a part, right or wrong."""
    full = bool(cell.scores) and sum(cell.scores) >= FULL_MARKS * len(cell.scores)
    answers = []
    for _, output in cell.answers:
        value = _at(plain(output), path)
        answers.append((answer_key(value), value))
    if full:
        scores = [1.0]
    elif cell.scores and answers:
        scores = [sum(key == expected for key, _ in answers) / len(answers)]
    else:  # it failed, or its answer is not known
        scores = [] if sum(cell.scores) else cell.scores
    return Cell(scores=scores, answers=answers)


def _at(value: Any, path: PartPath) -> Any:
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return ABSENT_PART
        value = value[key]
    return value
