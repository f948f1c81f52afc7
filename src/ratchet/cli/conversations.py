"""`ratchet conversations`: conversations with agents, most recently active first."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ratchet.cli.backend import ServerUrl, open_backend
from ratchet.cli.console import (
    Folder,
    Json,
    format_feedback,
    format_recent_time,
    one_line,
    out,
    print_json,
    table,
)
from ratchet.cli.keys import StoreUrl


def conversations(
    agent: Annotated[str | None, typer.Option(help="Only conversations with this agent.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1_000)] = 30,
    folder: Folder = Path("."),
    store: StoreUrl = None,
    server: ServerUrl = None,
    json: Json = False,
) -> None:
    """List conversations, most recently active first; ratchet show ID prints one.

    Examples:

      ratchet conversations --agent booking

      ratchet show chat-4711
    """
    with open_backend(folder, store, server) as backend:
        recent, cursor = backend.conversations(agent, limit)
    if json:
        print_json({"conversations": recent, "more": cursor is not None})
        return
    if not recent and agent is not None:
        out.print(f"No conversation in {backend.label} matches.", markup=False)
        return
    if not recent:
        out.print(
            f"No conversation yet in {backend.label}. Spans belong to a conversation if they have "
            "the attribute gen_ai.conversation.id or session.id; in Python, use: with "
            "ratchet.conversation(ID).",
            markup=False,
        )
        return
    now = time.time()
    columns = ("conversation", "agent", "turns", "began", "last", "feedback", "first input")
    rows = table(*columns, right=("turns",))
    for conversation in recent:
        bad = conversation.worst is not None and conversation.worst < 0.5
        rating = format_feedback(conversation.worst) or (
            str(conversation.feedback) if conversation.feedback else ""
        )
        rows.add_row(
            Text(one_line(conversation.id, 60)),
            Text(one_line(conversation.agent, 24), no_wrap=True, overflow="ellipsis"),
            Text(str(conversation.turns)),
            Text(format_recent_time(conversation.start_ns, now)),
            Text(format_recent_time(conversation.last_ns, now)),
            Text(rating, style="red" if bad else ""),
            Text(one_line(conversation.title, 40), overflow="ellipsis"),
        )
    for column in rows.columns:  # ids must stay whole, to be copied
        column.no_wrap = column.header not in ("agent", "first input")
    out.print(rows)
