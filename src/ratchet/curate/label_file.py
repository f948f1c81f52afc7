"""Reads labels from a JSON Lines file, one label per line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from ratchet.curate.task_file import json_of, lines_of
from ratchet.curate.text_file import open_text
from ratchet.types import Drawn, InputError, Label, content_hash, label_fault

MAX_NAMED = 5
"""Maximum number of malformed lines named in an error."""


class _Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    value: float | bool
    rollout_id: str = ""
    trace_id: str = ""
    criterion: str = ""
    labeller: str = ""
    drawn: Drawn = "imported"
    comment: str = ""
    created_at: float = 0.0
    id: str = ""


def read_labels(path: Path, labeller: str, say: Callable[[str], None]) -> list[Label]:
    """Read labels from JSON Lines.

    Args:
        path: The file; each line has `value` and either `rollout_id` or `trace_id`.
        labeller: Who labelled, for lines that do not say it.
        say: Takes a sentence on the file's encoding, where that is not UTF-8.

    Raises:
        InputError: The file cannot be read, or lines are malformed; the message names them.
    """
    labels: list[Label] = []
    wrong: list[str] = []
    try:
        with open_text(path) as text:
            if text.encoding.note:
                say(text.encoding.note)
            for number, line in lines_of(text.stream):
                label = _label(line, labeller)
                if isinstance(label, Label):
                    labels.append(label)
                else:
                    wrong.append(f"line {number}: {label}")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None
    if wrong:
        more = f" ({len(wrong) - MAX_NAMED} more)" if len(wrong) > MAX_NAMED else ""
        raise InputError(
            f"{path}: {' '.join(wrong[:MAX_NAMED])}{more}",
            hint='A label is {"rollout_id": "...", "value": 1}. Nothing was stored.',
        )
    return labels


def _label(line: bytes, labeller: str) -> Label | str:
    """The label, or the reason why there is none."""
    try:
        row = msgspec.convert(json_of(line), type=_Line)
    except (ValueError, msgspec.ValidationError) as error:
        return f"{error}."
    fields: dict[str, Any] = msgspec.structs.asdict(row)
    fields["value"] = float(row.value)
    fields["labeller"] = row.labeller or labeller
    fields["id"] = row.id or label_id(
        row.rollout_id or row.trace_id, row.criterion, fields["labeller"]
    )
    label = Label(**fields)
    fault = label_fault(label)
    return label if fault is None else fault[1]


def label_id(subject: str, criterion: str, labeller: str) -> str:
    """Id of a person's label of a subject, so that labelling again replaces it."""
    return content_hash(["label", subject, criterion, labeller])
