"""`ratchet traces`: list live traces, one per line, or follow new ones."""

from __future__ import annotations

import sys
import time
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

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
    short,
    table,
)
from ratchet.cli.errors import err
from ratchet.cli.keys import StoreUrl
from ratchet.cli.trace_options import (
    Named,
    OfAgent,
    OfConversation,
    Since,
    Until,
    WithErrors,
    WithRollouts,
)
from ratchet.types import InputError
from ratchet.types.trace import Sort, Trace, TraceFilter, first_of

POLL_INTERVAL_S = 1.0
"""Polling interval for new traces, in seconds."""

ROOT_WAIT_S = 10.0
"""Seconds after which a trace is shown without its root span: the root may belong to another
process, or still be open.
"""

MAX_PAGES = 20
"""Maximum number of pages searched."""

_REMEMBERED = 20_000


def traces(
    search: Annotated[
        str | None,
        typer.Option(
            "--search",
            "-s",
            help="Only live traces with all these words. Quote a phrase; the last word, and a "
            "word before an asterisk, match the beginning of a word.",
        ),
    ] = None,
    agent: OfAgent = None,
    errors: WithErrors = False,
    since: Since = None,
    until: Until = None,
    name: Named = None,
    conversation: OfConversation = None,
    feedback: Annotated[
        bool, typer.Option("--feedback", help="Only traces with feedback.")
    ] = False,
    min_duration: Annotated[
        float | None, typer.Option(min=0, help="Only traces that took at least this many seconds.")
    ] = None,
    min_cost: Annotated[
        float | None, typer.Option(min=0, help="Only traces that cost at least this many dollars.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Only live traces that called this model (full name).")
    ] = None,
    user: Annotated[
        str | None, typer.Option(help="Only live traces of this user (full id).")
    ] = None,
    rollouts: WithRollouts = False,
    candidate: Annotated[
        str | None, typer.Option(help="Only live calls that ran this candidate (full id).")
    ] = None,
    canary: Annotated[
        str | None, typer.Option(help="Only live calls in this canary (the id of its cycle).")
    ] = None,
    arm: Annotated[
        Literal["baseline", "candidate"] | None,
        typer.Option(help="Only live calls in this arm of a canary: baseline or candidate."),
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Only live calls of this group of users or inputs.")
    ] = None,
    sort: Annotated[Sort, typer.Option(help="Sort by newest, slowest or costliest.")] = "newest",
    slow: Annotated[bool, typer.Option("--slow", help="The same as --sort slowest.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1_000)] = 30,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show new traces as they arrive, until Ctrl-C.")
    ] = False,
    folder: Folder = Path("."),
    store: StoreUrl = None,
    server: ServerUrl = None,
    json: Json = False,
) -> None:
    """List traces of live traffic, newest first.

    Costs are the recorded ones, or computed from published prices. Durations, costs, names and
    errors are computed at query time: filters and orders by them read at most 40,000 traces, and
    the output states when there are more. What --search, --model and --user choose is read from an
    index, which is brought up to date first.

    Examples:

      ratchet traces --search 'refund "late fee"' --errors

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
        candidate_id=candidate,
        experiment_id=canary,
        arm=arm,
        group=group,
        search=search,
        model=model,
        user=user,
    )
    if slow and sort == "costliest":
        raise InputError("Give either --slow or --sort costliest, not both.")
    order: Sort = "slowest" if slow else sort
    if follow and order != "newest":
        raise InputError("--follow shows traces as they arrive; omit --sort and --slow.")
    with open_backend(folder, store, server, make=follow) as backend:
        if follow:
            _follow(backend, filters, json)
            return
        matches, looked_back_to = _search(backend, filters, order, limit)
    more = looked_back_to is not None
    if json:
        # Whether more traces might match: older ones, or with an order any.
        print_json({"traces": matches, "more": more, "looked_back_to_ns": looked_back_to})
        return
    if not matches:
        out.print(
            f"No trace {'yet' if filters == TraceFilter() else 'matches'} in {backend.label}."
            f"{_NONE if filters == TraceFilter() else ''}",
            markup=False,
        )
    else:
        _print(matches)
    if looked_back_to is not None and (order != "newest" or len(matches) < limit):
        # One second later: traces that began within it may not have been read.
        until = format_time(looked_back_to + 10**9).replace(" ", "T")
        err.print(
            f"Searched back to {format_time(looked_back_to)}; --until {until} continues there.",
            style="dim",
        )


_NONE = (
    " Call ratchet.init() in the agent, or point OTEL_EXPORTER_OTLP_ENDPOINT to a server; -C,"
    " --store and --server look elsewhere."
)


def _search(
    backend: Backend, filters: TraceFilter, sort: Sort, limit: int
) -> tuple[list[Trace], int | None]:
    """Up to `limit` traces, and the time the search went back to; None if it read all."""
    matches: list[Trace] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        room = limit - len(matches) if sort == "newest" else limit
        page, cursor = backend.traces(filters, sort=sort, limit=room, cursor=cursor)
        matches = matches + page if sort == "newest" else first_of(matches + page, sort, limit)
        if cursor is None or (sort == "newest" and len(matches) >= limit):
            break
    return matches, None if cursor is None else int(cursor.partition(".")[0])


_COLUMNS = (
    "started",
    "trace",
    "agent",
    "name",
    "input",
    "user",
    "model",
    "took",
    "spans",
    "errors",
    "tokens",
    "cost",
    "feedback",
)
_RIGHT = ("took", "spans", "errors", "tokens", "cost")
_BROAD = {"agent": 6, "name": 12, "input": 12}
"""Columns that are shortened when the terminal is narrow, and their minimum width."""


def _print(matches: Iterable[Trace]) -> None:
    now = time.time()
    cells = [_cells(trace, now) for trace in matches]
    # Empty columns would only waste width.
    columns = [n for n, _ in enumerate(_COLUMNS) if any(row[n].plain for row in cells)]
    rows = _table(cells, columns)
    if not out.is_terminal:  # unlimited width in a file or pipe
        out.print(rows)
        return
    for name in _FIRST_TO_GO:
        if _needed(cells, columns) + _SLACK <= out.width:
            break
        columns = [n for n in columns if _COLUMNS[n] != name]
        rows = _table(cells, columns)
    out.print(rows)


_SLACK = 4
"""Width that rich reserves for columns that it could shorten further."""
_FIRST_TO_GO = (
    *("spans", "tokens", "user", "agent", "model", "errors", "cost", "started", "input"),
)
"""Columns to drop, in this order, when the terminal is narrow: half a number would mislead."""


def _needed(cells: list[list[Text]], columns: list[int]) -> int:
    """Minimum width of a line, in characters."""
    needed = 0
    for n in columns:
        widest = max(len(_COLUMNS[n]), *(row[n].cell_len for row in cells))
        needed += 2 + min(widest, _BROAD.get(_COLUMNS[n], widest))
    return needed


def _table(cells: list[list[Text]], columns: list[int]) -> Table:
    rows = table(*(_COLUMNS[n] for n in columns), right=_RIGHT)
    for column in rows.columns:
        column.no_wrap = column.header not in _BROAD
        column.min_width = _BROAD.get(str(column.header))
    for row in cells:
        rows.add_row(*(row[n] for n in columns))
    return rows


def _cells(trace: Trace, now: float) -> list[Text]:
    tokens = f"{format_count(trace.input_tokens)}→{format_count(trace.output_tokens)}"
    used = trace.input_tokens or trace.output_tokens
    feedback = format_feedback(trace.worst) or (str(trace.feedback) if trace.feedback else "")
    bad = trace.worst is not None and trace.worst < 0.5
    return [
        Text(format_recent_time(trace.start_ns, now)),
        Text(one_line(short(trace.trace_id))),
        Text(one_line(trace.agent, 24), no_wrap=True, overflow="ellipsis"),
        Text(one_line(trace.name, 48), no_wrap=True, overflow="ellipsis"),
        _said(trace),
        Text(one_line(trace.user, 24)),
        Text(one_line(", ".join(trace.models), 32)),
        Text(format_duration(trace.duration_s)),
        Text(str(trace.spans)),
        Text(str(trace.errors), style="red") if trace.errors else Text(""),
        Text(tokens if used else ""),
        Text(spent(trace)),
        Text(feedback, style="red" if bad else ""),
    ]


def _said(trace: Trace) -> Text:
    """The trace's input, and its error or output."""
    line = Text(one_line(trace.input, _SAID), no_wrap=True, overflow="ellipsis")
    if trace.error:
        line.append(" ✕ ").append(one_line(trace.error, _SAID), style="red")
    elif trace.output:
        line.append(" → ").append(one_line(trace.output, _SAID), style="dim")
    return line


_SAID = 60
"""Characters of an input, and of an output or error."""

_WIDTHS = (11, 8, 16, 24, 48, 12, 16, 9, 6, 6, 13, 9, 8)


def _print_line(trace: Trace) -> None:
    line = Text()
    for cell, width in zip(_cells(trace, time.time()), _WIDTHS, strict=True):
        cell.truncate(width, overflow="ellipsis", pad=True)
        line.append_text(cell).append("  ")
    line.rstrip()
    out.print(line)


class TraceFollower:
    """Decides when to show a new trace: once, when its root span has arrived.

    Args:
        root_wait_s: Seconds after which it is shown without a root.
    """

    def __init__(self, root_wait_s: float = ROOT_WAIT_S) -> None:
        self._root_wait_s = root_wait_s
        self._shown: OrderedDict[tuple[str, str, int], None] = OrderedDict()
        self._pending: dict[tuple[str, str, int], tuple[Trace, float]] = {}

    def skip(self, page: Iterable[Trace]) -> None:
        """Mark existing traces as shown."""
        for trace in page:
            self._shown[_key(trace)] = None

    def ready(self, page: Iterable[Trace], now: float) -> list[Trace]:
        """The traces that are due to be shown.

        Args:
            page: Traces with new spans, in their current state.
            now: Monotonic time in seconds.
        """
        for trace in page:
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
            err.print("Waiting for traces; stop with Ctrl-C.", style="dim")
        while True:
            page, mark = backend.after(mark, filters)
            for trace in follower.ready(page, time.monotonic()):
                if json:
                    print_json(trace)
                    sys.stdout.flush()
                else:
                    _print_line(trace)
            time.sleep(POLL_INTERVAL_S)
    except KeyboardInterrupt:
        return
