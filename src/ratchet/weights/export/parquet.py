"""Parquet: columns of OpenAI's form, with the rollout, the task and the score of each row.

The schema is the same for every export: what depends on tools (their schemas, a call's arguments)
is JSON text.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from ratchet.types import InputError
from ratchet.weights.recorded_chat import ChatExample, ChatMessage, ChatPair

_GROUP = 1_000
"""Number of rows in a row group, which is held in memory."""


def rows_of_example(example: ChatExample) -> Iterator[dict[str, Any]]:
    """One row for a conversation."""
    learned = set(example.learned)
    yield {
        "messages": [_message(m, n in learned) for n, m in enumerate(example.messages)],
        "tools": _tools(example),
        "subject": example.subject,
        "task_id": example.task_id,
        "score": example.score,
    }


def rows_of_pair(pair: ChatPair) -> Iterator[dict[str, Any]]:
    """One row for a pair."""
    yield {
        "prompt": [_message(message, False) for message in pair.messages],
        "chosen": [_message(pair.chosen, True)],
        "rejected": [_message(pair.rejected, True)],
        "tools": _tools(pair),
        "subject": pair.subject,
        "task_id": pair.task_id,
    }


def write(rows: Iterable[dict[str, Any]], path: Path) -> None:
    """Write the rows, a group at a time.

    Raises:
        InputError: pyarrow is not installed.
    """
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        raise InputError(
            "Parquet files need pyarrow, which is not installed.",
            hint="Install it with: pip install 'agent-ratchet[parquet]'.",
        ) from None
    text = arrow.string()
    call = arrow.struct([("id", text), ("name", text), ("arguments", text)])
    message = arrow.struct(
        [
            ("role", text),
            ("content", text),
            ("tool_call_id", text),
            ("tool_calls", arrow.list_(call)),
            ("learned", arrow.bool_()),
        ]
    )
    talk = arrow.list_(message)
    kinds = {"messages": talk, "prompt": talk, "chosen": talk, "rejected": talk}
    waiting = iter(rows)
    first = list(itertools.islice(waiting, _GROUP))
    columns = list(first[0]) if first else ["messages", "tools", "subject", "task_id", "score"]
    schema = arrow.schema(
        [(n, kinds.get(n, arrow.float64() if n == "score" else text)) for n in columns]
    )
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        group = first
        while group:
            writer.write_table(arrow.Table.from_pylist(group, schema=schema))
            group = list(itertools.islice(waiting, _GROUP))


def _message(message: ChatMessage, learned: bool) -> dict[str, Any]:
    calls = [{"id": call["id"], **call["function"]} for call in message.get("tool_calls") or ()]
    return {
        "role": message["role"],
        "content": message.get("content"),
        "tool_call_id": message.get("tool_call_id"),
        "tool_calls": calls or None,
        "learned": learned,
    }


def _tools(item: ChatExample | ChatPair) -> str | None:
    return msgspec.json.encode(item.tools).decode() if item.tools else None
