"""`ratchet traces`: what ran live, one line a run; also as it happens."""

from __future__ import annotations

import sys
import time
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from ratchet.cli.backend import Backend, ServerUrl, open_backend, parse_time, spent
from ratchet.cli.console import (
    Folder,
    Json,
    format_count,
    format_duration,
    format_feedback,
    format_recent_time,
    format_time,
    one_line,
    out,
    print_json,
    print_table,
    short,
    table,
)
from ratchet.cli.errors import err
from ratchet.cli.keys import StoreUrl
from ratchet.types import InputError
from ratchet.types.trace import Sort, Trace, TraceFilter, first_of

POLL_S = 1.0
"""How often is looked for new traces."""

ROOT_WAIT_S = 10.0
"""After so long a trace is shown whose root has not come: it is somebody else's, or runs long."""

MAX_PAGES = 20
"""Pages that are looked through for what is rare."""

_REMEMBERED = 20_000


def traces(
    agent: Annotated[str | None, typer.Option(help="Only of this agent.")] = None,
    errors: Annotated[
        bool, typer.Option("--errors", help="Only those in which a step failed.")
    ] = False,
    since: Annotated[
        str | None, typer.Option(help="Only those that began since, such as 15m, 1h, 2d, a date.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Only those that began before.")] = None,
    name: Annotated[str | None, typer.Option(help="Only those whose name has this in it.")] = None,
    conversation: Annotated[
        str | None, typer.Option(help="Only those of this conversation.")
    ] = None,
    feedback: Annotated[
        bool, typer.Option("--feedback", help="Only those that somebody said something of.")
    ] = False,
    min_duration: Annotated[
        float | None, typer.Option(min=0, help="Only those that took at least so many seconds.")
    ] = None,
    min_cost: Annotated[
        float | None, typer.Option(min=0, help="Only those that cost at least so many dollars.")
    ] = None,
    rollouts: Annotated[bool, typer.Option("--rollouts", help="Those of rollouts, too.")] = False,
    sort: Annotated[
        Sort, typer.Option(help="newest; slowest or costliest of those that fit.")
    ] = "newest",
    slow: Annotated[bool, typer.Option("--slow", help="The same as --sort slowest.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1_000)] = 30,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show new ones as they come, until Ctrl-C.")
    ] = False,
    folder: Folder = Path("."),
    store: StoreUrl = None,
    server: ServerUrl = None,
    json: Json = False,
) -> None:
    """List what agents did live, newest first.

    Costs are those that were recorded, or else by published prices. Durations, costs, names and
    errors are computed when you ask: such a search, or such an order, looks at 40,000 traces, and
    says so when there are more.

    Examples:

      ratchet traces --errors --since 1h

      ratchet traces --agent booking --sort costliest -n 10

      ratchet traces --follow
    """
    now = time.time()
    filters = TraceFilter(
        agent=agent,
        errors=errors,
        since_ns=None if since is None else parse_time(since, now),
        until_ns=None if until is None else parse_time(until, now),
        min_duration_s=min_duration,
        min_cost_usd=min_cost,
        name=name,
        conversation_id=conversation,
        feedback=feedback,
        rollouts=rollouts,
    )
    if slow and sort == "costliest":
        raise InputError("Say either --slow or --sort costliest.")
    order: Sort = "slowest" if slow else sort
    if follow and order != "newest":
        raise InputError("--follow shows traces as they come; leave the order out.")
    with open_backend(folder, store, server, make=follow) as backend:
        if follow:
            _follow(backend, filters, json)
            return
        found, looked_back_to = _search(backend, filters, order, limit)
    more = looked_back_to is not None
    if json:
        # Whether there are others that might have been listed: older ones, or of an order any.
        print_json({"traces": found, "more": more, "looked_back_to_ns": looked_back_to})
        return
    if not found:
        out.print(
            f"No trace {'yet' if filters == TraceFilter() else 'fits'} in {backend.label}."
            f"{_NONE if filters == TraceFilter() else ''}",
            markup=False,
        )
    else:
        _print(found)
    if looked_back_to is not None and (order != "newest" or len(found) < limit):
        # A second later: those that began within it may not have been looked at.
        until = format_time(looked_back_to + 10**9).replace(" ", "T")
        err.print(
            f"Looked back to {format_time(looked_back_to)}; --until {until} goes on from there.",
            style="dim",
        )


_NONE = (
    " Call ratchet.init() in the agent, or point OTEL_EXPORTER_OTLP_ENDPOINT to a server; -C,"
    " --store and --server look elsewhere."
)


def _search(
    backend: Backend, filters: TraceFilter, sort: Sort, limit: int
) -> tuple[list[Trace], int | None]:
    """So many traces, and how far was looked for them; None when all were looked at."""
    found: list[Trace] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        room = limit - len(found) if sort == "newest" else limit
        page, cursor = backend.traces(filters, sort=sort, limit=room, cursor=cursor)
        found = found + page if sort == "newest" else first_of(found + page, sort, limit)
        if cursor is None or (sort == "newest" and len(found) >= limit):
            break
    return found, None if cursor is None else int(cursor.partition(".")[0])


_COLUMNS = (
    "started",
    "trace",
    "agent",
    "name",
    "took",
    "spans",
    "errors",
    "tokens",
    "cost",
    "feedback",
)
_RIGHT = ("took", "spans", "errors", "tokens", "cost")
_BROAD = {"agent": 6, "name": 12}
"""Columns that are cut where there is no room, and what is left of them at least."""


def _print(found: Iterable[Trace]) -> None:
    now = time.time()
    cells = [_cells(trace, now) for trace in found]
    # What nothing is known of would only take the room.
    shown = [n for n, _ in enumerate(_COLUMNS) if any(row[n].plain for row in cells)]
    rows = _table(cells, shown)
    if not out.is_terminal:  # a file or another program has room for all of it
        print_table(rows)
        return
    for name in _FIRST_TO_GO:
        if _needed(cells, shown) + _SLACK <= out.width:
            break
        shown = [n for n in shown if _COLUMNS[n] != name]
        rows = _table(cells, shown)
    out.print(rows)


_SLACK = 4
"""Characters that rich leaves to what could be cut further."""
_FIRST_TO_GO = ("spans", "tokens", "agent", "errors", "cost", "started")
"""Columns that are left out where there is no room for all: half a number is a wrong one."""


def _needed(cells: list[list[Text]], shown: list[int]) -> int:
    """Characters that a line takes at least."""
    needed = 0
    for n in shown:
        widest = max(len(_COLUMNS[n]), *(row[n].cell_len for row in cells))
        needed += 2 + min(widest, _BROAD.get(_COLUMNS[n], widest))
    return needed


def _table(cells: list[list[Text]], shown: list[int]) -> Table:
    rows = table(*(_COLUMNS[n] for n in shown), right=_RIGHT)
    for column in rows.columns:
        column.no_wrap = column.header not in _BROAD
        column.min_width = _BROAD.get(str(column.header))
    for row in cells:
        rows.add_row(*(row[n] for n in shown))
    return rows


def _cells(trace: Trace, now: float) -> list[Text]:
    tokens = f"{format_count(trace.input_tokens)}→{format_count(trace.output_tokens)}"
    used = trace.input_tokens or trace.output_tokens
    shown = format_feedback(trace.worst) or (str(trace.feedback) if trace.feedback else "")
    bad = trace.worst is not None and trace.worst < 0.5
    return [
        Text(format_recent_time(trace.start_ns, now)),
        Text(one_line(short(trace.trace_id))),
        Text(one_line(trace.agent, 24), no_wrap=True, overflow="ellipsis"),
        Text(one_line(trace.name, 48), no_wrap=True, overflow="ellipsis"),
        Text(format_duration(trace.duration_s)),
        Text(str(trace.spans)),
        Text(str(trace.errors), style="red") if trace.errors else Text(""),
        Text(tokens if used else ""),
        Text(spent(trace)),
        Text(shown, style="red" if bad else ""),
    ]


_WIDTHS = (11, 8, 16, 32, 9, 6, 6, 13, 9, 8)


def _print_line(trace: Trace) -> None:
    line = Text()
    for cell, width in zip(_cells(trace, time.time()), _WIDTHS, strict=True):
        cell.truncate(width, overflow="ellipsis", pad=True)
        line.append_text(cell).append("  ")
    line.rstrip()
    out.print(line, soft_wrap=True)


class TraceFollower:
    """Decides when a trace that is being stored is shown: once, when its root is there.

    Args:
        root_wait_s: After so long it is shown without.
    """

    def __init__(self, root_wait_s: float = ROOT_WAIT_S) -> None:
        self._root_wait_s = root_wait_s
        self._shown: OrderedDict[tuple[str, str, int], None] = OrderedDict()
        self._pending: dict[tuple[str, str, int], tuple[Trace, float]] = {}

    def skip(self, found: Iterable[Trace]) -> None:
        """Leave out what was there before."""
        for trace in found:
            self._shown[_key(trace)] = None

    def ready(self, found: Iterable[Trace], now: float) -> list[Trace]:
        """What is to be shown now.

        Args:
            found: Traces of which something new was stored, as they are now.
            now: Seconds, from any beginning, never going back.
        """
        for trace in found:
            if _key(trace) not in self._shown:
                _, since = self._pending.get(_key(trace), (trace, now))
                self._pending[_key(trace)] = (trace, since)
        due = [
            trace
            for trace, since in self._pending.values()
            if not trace.rootless or now - since >= self._root_wait_s
        ]
        for trace in due:
            del self._pending[_key(trace)]
        self.skip(due)
        while len(self._shown) > _REMEMBERED:
            self._shown.popitem(last=False)
        return sorted(due, key=lambda trace: trace.start_ns)


def _key(trace: Trace) -> tuple[str, str, int]:
    return trace.trace_id, trace.rollout_id, trace.fence


def _follow(backend: Backend, filters: TraceFilter, json: bool) -> None:
    follower = TraceFollower()
    try:
        mark = backend.mark()
        before, _ = backend.after(mark, msgspec.structs.replace(filters, since_ns=None))
        follower.skip(before)
        if not json:
            err.print("Waiting for traces; Ctrl-C ends.", style="dim")
        while True:
            found, mark = backend.after(mark, filters)
            for trace in follower.ready(found, time.monotonic()):
                if json:
                    print_json(trace)
                    sys.stdout.flush()
                else:
                    _print_line(trace)
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        return
