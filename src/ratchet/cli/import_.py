"""`ratchet import`: what other tools wrote down, into a store or a server."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from ratchet.autopilot import read_server_config
from ratchet.cli.console import Folder, Interrupted, Json, near, out, print_json
from ratchet.cli.import_progress import Bookmarks, Meter
from ratchet.cli.keys import StoreUrl, open_store
from ratchet.client import Client, is_server
from ratchet.curate.importing import (
    Context,
    Format,
    Imported,
    Unfit,
    format_of,
    read_units,
    rows_of,
    unwrapped,
)
from ratchet.curate.importing.storing import Storing
from ratchet.observe.place import FILE_NAME, folder_with_config, prepare_state
from ratchet.observe.redaction import Redactor, Rules, redactor_of
from ratchet.types import InputError, RatchetError

MOST_REASONS = 20
"""Reasons that are shown with their line, of each file."""

ServerUrl = Annotated[
    str | None,
    typer.Option("--server", help="Address of a server to send it to, instead of a store."),
]


def import_(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="What to read.")],
    format: Annotated[
        str,
        typer.Option(
            help="auto, otlp, openai, anthropic, trajectories, langfuse, phoenix or mlflow."
        ),
    ] = "auto",
    agent: Annotated[
        str | None, typer.Option(help="What to call the agent; by default what the file says.")
    ] = None,
    folder: Folder = Path("."),
    store: StoreUrl = None,
    server: ServerUrl = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and report; store nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Take in traces, conversations and judged trajectories that lie in files.

    OTLP in JSON; chat messages in OpenAI's and Anthropic's form, one conversation a line;
    trajectories with rewards; and what Langfuse, Phoenix and MLflow export, as JSON, JSON Lines or
    CSV. The same again is stored once. A run that was killed goes on where it stood. What cannot
    be read is left out, and told of with its line.

    Examples:

      ratchet import traces.jsonl

      ratchet import --format langfuse --agent support export/*.csv

      ratchet import --server http://127.0.0.1:8765 conversations.jsonl --dry-run
    """
    formats = _formats()
    if format != "auto" and format not in formats:
        raise InputError(
            f"There is no format {format!r}.", hint=f"Known: auto, {', '.join(formats)}."
        )
    chosen = formats if format == "auto" else {format: formats[format]}
    _check(files, store, server)
    with ExitStack() as stack:
        target, place = _target(stack, folder, store, server, dry_run)
        bookmarks = Bookmarks(None if dry_run else _state(folder), target)
        redactor = _redactor(folder)
        course = _Course(chosen, redactor, target, bookmarks)
        reports = []
        for file in files:
            context = Context(
                agent=agent or "", at_ns=file.stat().st_mtime_ns, rollouts=server is None
            )
            try:
                reports.append(course.read(file, context, f"{place} {format} {agent or ''}"))
            except KeyboardInterrupt:
                raise Interrupted(
                    f"Interrupted while {near(file)} was read. What is stored is kept; the same"
                    " command goes on from there."
                ) from None
    _tell(reports, dry_run, json)
    if not any(report["read"].get("spans") or report["read"].get("feedback") for report in reports):
        raise InputError(
            "Nothing was imported.",
            hint="See why above. The formats are in docs/import.md; name one with --format.",
        )


def _formats() -> dict[str, Format]:
    from ratchet.cli.import_otlp import OTLP
    from ratchet.curate.importing import FORMATS

    return {"otlp": OTLP, **FORMATS}


def _check(files: list[Path], store: str | None, server: str | None) -> None:
    if store is not None and server is not None:
        raise InputError("It goes to a store or to a server: leave --store or --server out.")
    if server is not None and not is_server(server):
        raise InputError(f"{server!r} is no address of a server.", hint="Such as http://host:8765.")
    for file in files:
        if file.is_dir():
            raise InputError(
                f"{file} is a folder.", hint=f"Name its files, such as {file / '*.jsonl'}."
            )
        if not file.exists():
            raise InputError(f"There is no file {file}.")
        if not file.is_file():
            raise InputError(
                f"{file} is no file.",
                hint="Write what comes through a pipe to one: it is read"
                " twice, and a run that was killed goes on in it.",
            )


def _target(
    stack: ExitStack, folder: Path, store: str | None, server: str | None, dry_run: bool
) -> tuple[Any, str]:
    """Where it goes, and how that place is known."""
    if dry_run:
        return None, ""
    if server is not None:
        return stack.enter_context(Client(server)), server
    return stack.enter_context(open_store(folder, store)), store or str(folder.resolve())


def _state(folder: Path) -> Path:
    return prepare_state(folder_with_config(folder) or folder.resolve())


def _redactor(folder: Path) -> Redactor:
    root = folder_with_config(folder)
    if root is None:
        return redactor_of(Rules(), os.environ)
    found = read_server_config(root / FILE_NAME).redaction
    return redactor_of(Rules(**found.model_dump()), os.environ)


class _Skipped:
    """What of a file was left out, and why."""

    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()
        self.lines: list[dict[str, Any]] = []

    def add(self, line: int, why: str) -> None:
        # Of one kind are those that differ in what stands behind a colon alone.
        self.reasons[why.partition(":")[0][:80]] += 1
        if len(self.lines) < MOST_REASONS:
            self.lines.append({"line": line, "why": why[:500]})


class _Course:
    """Reads files and stores what they hold."""

    def __init__(
        self, formats: dict[str, Format], redactor: Redactor, target: Any, bookmarks: Bookmarks
    ) -> None:
        self._formats = formats
        self._redactor = redactor
        self._target = target
        self._bookmarks = bookmarks

    def read(self, file: Path, context: Context, place: str) -> dict[str, Any]:
        """Read a file and store it; return what became of it."""
        storing = Storing(self._target, self._redactor)
        skipped = _Skipped()
        used: Counter[str] = Counter()
        number = begin = self._bookmarks.begin(file, place)
        with Meter(file) as meter:
            for unit in read_units(file, begin):
                number += 1
                meter.at(unit.end)
                if unit.error:
                    skipped.add(unit.line, unit.error)
                for value in () if unit.error else self._values(unit.value):
                    try:
                        name, imported = self._read(value, context)
                    except Unfit as unfit:
                        skipped.add(unit.line, str(unfit))
                        continue
                    used[name] += 1
                    storing.add(imported)
                    for why in imported.skipped:
                        skipped.add(unit.line, why)
                if storing.is_full:
                    storing.flush()
                    self._bookmarks.put(number, storing.last_trace)
            storing.flush()
        self._bookmarks.end()
        return {
            "file": str(file),
            "formats": dict(used),
            "begun_at": begin,
            "values": number - begin,
            "read": {key: count for key, count in storing.read.items() if count},
            "new": {key: count for key, count in storing.new.items() if count},
            "skipped": skipped.reasons.total(),
            "reasons": dict(skipped.reasons.most_common(MOST_REASONS)),
            "lines": skipped.lines,
        }

    def _values(self, value: Any) -> list[Any]:
        """The value, or what it holds when it is nothing but a wrapping."""
        rows = rows_of(value)
        if rows or format_of(value, self._formats) is not None:
            return rows or [value]
        return unwrapped(value) or [value]

    def _read(self, value: Any, context: Context) -> tuple[str, Imported]:
        """The format of a value, and what is read of it.

        Raises:
            Unfit: It has none of the formats, or not quite.
        """
        name = format_of(value, self._formats)
        if len(self._formats) == 1:
            name = next(iter(self._formats))
        if name is None:
            keys = (
                f": its keys are {sorted(map(str, value))[:8]}" if isinstance(value, dict) else ""
            )
            raise Unfit(f"it looks like none of the formats{keys}")
        try:
            return name, self._formats[name].read(value, context)
        except RatchetError as error:
            raise Unfit(error.message) from None
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            # A shape that nobody thought of costs this value, and not those behind it.
            raise Unfit(f"it is not what {name} writes: {type(error).__name__}: {error}") from None
        except RecursionError:
            raise Unfit("nested too deeply") from None


def _tell(reports: list[dict[str, Any]], dry_run: bool, json: bool) -> None:
    if json:
        print_json({"dry_run": dry_run, "files": reports})
        return
    for report in reports:
        read = report["read"]
        counts = _counts(read) or "nothing"
        formats = ", ".join(report["formats"]) or "no known format"
        line = f"{near(report['file'])} ({formats}): {counts}"
        out.print(line, markup=False, soft_wrap=True)
        if report["begun_at"]:
            out.print(f"  went on after {report['begun_at']} values that are stored", markup=False)
        if not dry_run and read:
            new = _counts(report["new"]) or "nothing: all of it was there"
            out.print(f"  new in the store: {new}", markup=False)
        if report["skipped"]:
            out.print(f"  left out: {report['skipped']}", markup=False)
            for one in report["lines"]:
                out.print(f"    line {one['line']}: {one['why']}", markup=False, soft_wrap=True)
            if report["skipped"] > len(report["lines"]):
                out.print(f"    and {report['skipped'] - len(report['lines'])} more", markup=False)
    if dry_run:
        out.print("Nothing was stored: --dry-run.")


_NOUNS = {
    "traces": "trace",
    "spans": "span",
    "rollouts": "rollout",
    "scores": "score",
    "feedback": "statement of feedback",
}


def _counts(counted: dict[str, int]) -> str:
    """How much of each noun, in words."""
    several = {"feedback": "statements of feedback"}
    return ", ".join(
        f"{counted[noun]} {one if counted[noun] == 1 else several.get(noun, noun)}"
        for noun, one in _NOUNS.items()
        if counted.get(noun)
    )
