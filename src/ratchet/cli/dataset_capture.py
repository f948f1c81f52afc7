"""`ratchet datasets capture`: make tasks from recorded traces."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ratchet.autopilot import Project
from ratchet.cli.backend import parse_time
from ratchet.cli.console import Folder, Interrupted, Json, out, print_json, short
from ratchet.cli.dataset_options import (
    DatasetName,
    GroupBy,
    Shares,
    check_dataset_name,
    counts_text,
    dataset_or_new,
    fractions_of,
    split_counts,
    task_for_machines,
    task_line,
    versioned,
)
from ratchet.cli.errors import err
from ratchet.cli.keys import StoreUrl, open_store
from ratchet.cli.trace_options import (
    Named,
    OfAgent,
    OfConversation,
    Since,
    Until,
    WithErrors,
    WithRollouts,
)
from ratchet.client.address import address_of
from ratchet.curate import Capture, CaptureFilter
from ratchet.curate import capture as capture_tasks
from ratchet.observe.project_paths import folder_with_config
from ratchet.store import Store
from ratchet.types import InputError
from ratchet.types.trace import TraceFilter
from ratchet.types.wording import counted

if TYPE_CHECKING:
    from ratchet.client import Client

_SCORE = re.compile(r"([^<>=]+)(?:(<=|>=)([0-9.eE+-]+))?")

_PROGRESS_EVERY_S = 0.2
_PLAIN_EVERY_S = 10.0
_SHOWN = 20


def capture(
    name: DatasetName,
    agent: OfAgent = None,
    errors: WithErrors = False,
    feedback: Annotated[
        Literal["any", "good", "bad"] | None,
        typer.Option(help="Only traces with this kind of feedback."),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(
            metavar="EVALUATOR[<=X]",
            help="Only rollouts and imported trajectories with this score.",
        ),
    ] = None,
    since: Since = None,
    until: Until = None,
    trace_name: Named = None,
    conversation: OfConversation = None,
    rollouts: WithRollouts = False,
    novelty: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Only inputs in which at least this share of the words occurs in no task.",
        ),
    ] = None,
    per_cluster: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of tasks with similar inputs.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum of tasks.")] = 500,
    shares: Shares = None,
    group_by: GroupBy = "conversation",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be captured; store nothing.")
    ] = False,
    folder: Folder = Path("."),
    store: StoreUrl = None,
    server: Annotated[
        str | None,
        typer.Option(
            help="Read the traces of this server; by default run.server of ratchet.toml. Its key "
            "is read from RATCHET_KEY. The dataset stays in the store."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Make tasks from recorded traces, the newest first, and add them to a dataset.

    Traces are those of the agent, of calls through the gateway, and imported ones. The input is
    that of the root span, or what the user said in the first model call. The expected answer comes
    from a correction, a later attempt at the same input that passed, or a person's label;
    otherwise it is left open. Inputs that the dataset has already, or that say nearly the same,
    are left out. Tasks that are there stay in their splits.

    Examples:

      ratchet datasets capture support --agent support --feedback bad --since 7d

      ratchet datasets capture support --errors --per-cluster 5 --dry-run

      ratchet datasets capture support --score "reward<=0.5"

      ratchet datasets capture support --server http://10.0.0.5:8765 --feedback bad
    """
    check_dataset_name(name)
    now = time.time()
    evaluator, above, below = _score_filter(score)
    criteria = CaptureFilter(
        traces=TraceFilter(
            agent=agent,
            errors=errors,
            since_ns=None if since is None else parse_time(since, now),
            until_ns=None if until is None else parse_time(until, now),
            name=trace_name,
            conversation_id=conversation,
            feedback=feedback is not None,
            rollouts=rollouts,
        ),
        feedback=feedback,
        evaluator=evaluator,
        score_above=above,
        score_below=below,
        novelty=novelty,
        per_cluster=per_cluster,
    )
    fractions = fractions_of(shares, folder)
    with open_store(folder, store) as opened, _source(opened, folder, store, server) as source:
        dataset = dataset_or_new(opened, name)
        try:
            with _progress() as on_page:
                captured = capture_tasks(
                    source,
                    dataset,
                    criteria,
                    limit=limit,
                    fractions=fractions,
                    now=now,
                    group_by=group_by,
                    on_page=on_page,
                )
        except KeyboardInterrupt:
            raise Interrupted("Interrupted. Nothing was stored.") from None
        if captured.tasks and not dry_run:
            opened.datasets.put(captured.dataset, now, after=dataset)
    if json:
        print_json(_for_machines(captured, dry_run))
    else:
        _print(captured, dry_run, existing=len(dataset.tasks))


@contextmanager
def _source(
    opened: Store, folder: Path, store: str | None, server: str | None
) -> Iterator[Store | Client]:
    """The source of the traces: the named server, the named store, or the project's own store."""
    if server is None and store is None and folder_with_config(folder) is not None:
        server = Project.find(folder).config.run.server
    if server is None:
        yield opened
        return
    from ratchet.client import Client

    err.print(f"Reading the traces of {address_of(server).url}", style="dim", markup=False)
    with Client(server) as client:
        yield client


def _score_filter(score: str | None) -> tuple[str | None, float | None, float | None]:
    if score is None:
        return None, None, None
    parsed = _SCORE.fullmatch(score.strip())
    try:
        bound = float(parsed[3]) if parsed and parsed[3] else None
    except ValueError:
        parsed = None
    if parsed is None:
        raise InputError(
            f"{score!r} is not a score condition.",
            hint="Write for example --score reward, or --score 'reward<=0.5'.",
        )
    above = bound if parsed[2] == ">=" else None
    return parsed[1].strip(), above, bound if parsed[2] == "<=" else None


@contextmanager
def _progress() -> Iterator[_OnPage]:
    progress = _OnPage()
    if err.is_terminal:
        with err.status("Reading traces") as status:
            progress.show = status.update
            yield progress
    else:
        yield progress


class _OnPage:
    """Reports how many traces were read; less often when the output is not a terminal."""

    def __init__(self) -> None:
        self._at = time.monotonic()
        self._every_s = _PROGRESS_EVERY_S if err.is_terminal else _PLAIN_EVERY_S
        self.show: Callable[[str], None] = err.print

    def __call__(self, examined: int, tasks: int) -> None:
        if time.monotonic() - self._at >= self._every_s:
            self._at = time.monotonic()
            self.show(f"{counted(examined, 'trace')} read, {counted(tasks, 'task')} found")


def _for_machines(capture: Capture, dry_run: bool) -> dict[str, object]:
    dataset = capture.dataset
    return {
        "dry_run": dry_run,
        "name": dataset.name,
        "version": dataset.version,
        "parent": dataset.parent,
        "splits": split_counts(dataset),
        "examined": capture.examined,
        "left_out": capture.left_out,
        "tasks": [
            {
                **task_for_machines(captured.task, dataset.splits[captured.task.id]),
                "trace": captured.trace.trace_id,
                "change": captured.change,
            }
            for captured in capture.tasks
        ],
    }


def _print(capture: Capture, dry_run: bool, existing: int) -> None:
    added = sum(captured.change == "added" for captured in capture.tasks)
    answered = len(capture.tasks) - added
    for captured in capture.tasks[:_SHOWN]:
        sign = "+" if captured.change == "added" else "~"
        out.print(
            f"{sign} {short(captured.trace.trace_id)} ({captured.task.origin.by}):"
            f" {task_line(captured.task)}",
            markup=False,
        )
    if len(capture.tasks) > _SHOWN:
        out.print(f"and {len(capture.tasks) - _SHOWN} more")
    verb = "would be added" if dry_run else "added"
    more = f", {counted(answered, 'expected answer')} found for its tasks" if answered else ""
    out.print(f"{counted(capture.examined, 'trace')} read: {counted(added, 'task')} {verb}{more}.")
    for why, number in capture.left_out.items():
        out.print(f"  {number} left out: {why}", markup=False)
    open_tasks = sum(captured.task.expected is None for captured in capture.tasks)
    if open_tasks:
        out.print(f"{counted(open_tasks, 'task')} without an expected answer.")
    if not capture.tasks:
        out.print("Nothing to add." if existing else "Nothing captured, so no dataset was made.")
    elif dry_run:
        out.print("Nothing was stored: --dry-run.")
    else:
        dataset = capture.dataset
        out.print(
            f"{versioned(dataset)}: {counted(len(dataset.tasks), 'task')}, train / val / test"
            f" {counts_text(split_counts(dataset))}",
            markup=False,
        )
