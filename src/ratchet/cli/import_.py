"""`ratchet import`: import records of other tools from files into a store or a server."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

import typer
from rich.progress import Progress

from ratchet.cli.byte_bar import byte_bar
from ratchet.cli.console import Folder, Interrupted, Json, display_path, out, print_json
from ratchet.cli.errors import err
from ratchet.cli.keys import StoreUrl, open_store
from ratchet.cli.redaction import redactor_of_folder
from ratchet.client import Client, is_server
from ratchet.curate.importing import (
    REWARD_KEYS,
    Format,
    FormatMismatch,
    ImportContext,
    ImportedRecords,
    format_of,
    has_named_fields,
    keys_of,
    nearest_format,
    read_values,
    rows_of,
    unwrapped,
    with_standard_names,
    without_not_finite,
)
from ratchet.curate.importing.writer import ImportWriter
from ratchet.observe.project_paths import folder_with_config, prepare_state
from ratchet.observe.redaction import Redactor
from ratchet.types import InputError, RatchetError

MAX_REASONS = 20
"""Maximum number of skipped records listed per file, each with its line and reason."""

ServerUrl = Annotated[
    str | None,
    typer.Option(
        "--server", help="Address of a server to send the records to, instead of a store."
    ),
]


def import_(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files to read.")],
    format: Annotated[
        str,
        typer.Option(
            help="auto, otlp, openai, anthropic, trajectories, langfuse, phoenix or mlflow."
        ),
    ] = "auto",
    agent: Annotated[
        str | None, typer.Option(help="Name of the agent; by default the one in the file.")
    ] = None,
    messages: Annotated[
        str,
        typer.Option(metavar="KEY", help="Key of the messages, such as result.history."),
    ] = "",
    reward: Annotated[
        str, typer.Option(metavar="KEY", help="Key of the reward, such as info.success.")
    ] = "",
    folder: Folder = Path("."),
    store: StoreUrl = None,
    server: ServerUrl = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read the files and report; store nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Import traces, conversations and scored trajectories from files.

    Reads OTLP in JSON; chat messages in OpenAI's and Anthropic's form, one conversation per line;
    trajectories with rewards; and exports of Langfuse, Phoenix and MLflow as JSON, JSON Lines or
    CSV. Records that are already stored are not stored again. A killed import continues where it
    stopped. Records that cannot be read are skipped and reported with their line.

    Examples:

      ratchet import traces.jsonl

      ratchet import --format langfuse --agent support export/*.csv

      ratchet import --messages result.history --reward info.success runs.jsonl

      ratchet import --server http://127.0.0.1:8765 conversations.jsonl --dry-run
    """
    formats = _formats()
    if format != "auto" and format not in formats:
        raise InputError(
            f"There is no format {format!r}.", hint=f"The formats are auto, {', '.join(formats)}."
        )
    selected = formats if format == "auto" else {format: formats[format]}
    _check(files, store, server)
    with ExitStack() as stack:
        target, destination = _target(stack, folder, store, server, dry_run)
        bookmarks = Bookmarks(None if dry_run else _state(folder), target)
        redactor = redactor_of_folder(folder)
        importer = _Importer(selected, redactor, target, bookmarks)
        reports = []
        for file in files:
            context = ImportContext(
                agent=agent or "",
                at_ns=file.stat().st_mtime_ns,
                messages=messages,
                reward=reward,
                rollouts=server is None,
            )
            settings = f"{destination} {format} {agent or ''} {messages} {reward}".rstrip()
            try:
                reports.append(importer.read(file, context, settings))
            except KeyboardInterrupt:
                raise Interrupted(
                    f"Interrupted while reading {display_path(file)}. Stored records are kept;"
                    " run the same command again to continue."
                ) from None
    _print_reports(reports, dry_run, json)
    if not any(report["read"].get("spans") or report["read"].get("feedback") for report in reports):
        raise InputError(
            "Nothing was imported.",
            hint="See the reasons above. docs/import.md lists the formats; --format selects one.",
        )


def _formats() -> dict[str, Format]:
    from ratchet.cli.import_otlp import OTLP
    from ratchet.curate.importing import FORMATS

    return {"otlp": OTLP, **FORMATS}


def _check(files: list[Path], store: str | None, server: str | None) -> None:
    if store is not None and server is not None:
        raise InputError("Give either --store or --server, not both.")
    if server is not None and not is_server(server):
        raise InputError(f"{server!r} is not a server address.", hint="Such as http://host:8765.")
    for file in files:
        if file.is_dir():
            raise InputError(
                f"{file} is a folder.", hint=f"Name its files, such as {file / '*.jsonl'}."
            )
        if not file.exists():
            raise InputError(f"There is no file {file}.")
        if not file.is_file():
            raise InputError(
                f"{file} is not a regular file.",
                hint="Save piped input to a file first: it is read"
                " twice, and a killed import continues in it.",
            )


def _target(
    stack: ExitStack, folder: Path, store: str | None, server: str | None, dry_run: bool
) -> tuple[Any, str]:
    """The destination and its label; (None, "") for a dry run."""
    if dry_run:
        return None, ""
    if server is not None:
        return stack.enter_context(Client(server)), server
    return stack.enter_context(open_store(folder, store)), store or str(folder.resolve())


def _state(folder: Path) -> Path:
    return prepare_state(folder_with_config(folder) or folder.resolve())


class _Skipped:
    """The records of a file that were skipped, and the reasons."""

    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()
        self.lines: list[dict[str, Any]] = []

    def add(self, line: int, why: str) -> None:
        # Group reasons by the text before a colon; the rest differs for each record.
        self.reasons[why.partition(":")[0][:80]] += 1
        if len(self.lines) < MAX_REASONS:
            self.lines.append({"line": line, "why": why[:500]})


class _Importer:
    """Reads files and stores their records."""

    def __init__(
        self, formats: dict[str, Format], redactor: Redactor, target: Any, bookmarks: Bookmarks
    ) -> None:
        self._formats = formats
        self._redactor = redactor
        self._target = target
        self._bookmarks = bookmarks

    def read(self, file: Path, context: ImportContext, destination: str) -> dict[str, Any]:
        """Import a file and return its report."""
        writer = ImportWriter(self._target, self._redactor)
        skipped = _Skipped()
        notes: list[str] = []
        used: Counter[str] = Counter()
        number = begin = self._bookmarks.begin(file, destination)
        with ReadProgress(file) as meter:
            for unit in read_values(file, begin, notes.append):
                number += 1
                meter.at(unit.end)
                if unit.error:
                    skipped.add(unit.line, unit.error)
                for value in () if unit.error else self._values(unit.value, context):
                    try:
                        name, imported = self._read(value, context, unit.not_finite)
                    except FormatMismatch as unfit:
                        skipped.add(unit.line, str(unfit))
                        continue
                    used[name] += 1
                    writer.add(imported)
                    for why in imported.skipped:
                        skipped.add(unit.line, why)
                if writer.is_full:
                    writer.flush()
                    self._bookmarks.put(number, writer.last_trace)
            writer.flush()
        self._bookmarks.end()
        return {
            "file": str(file),
            "notes": notes,
            "formats": dict(used),
            "begun_at": begin,
            "values": number - begin,
            "read": {key: count for key, count in writer.read.items() if count},
            "new": {key: count for key, count in writer.new.items() if count},
            "skipped": skipped.reasons.total(),
            "reasons": dict(skipped.reasons.most_common(MAX_REASONS)),
            "lines": skipped.lines,
        }

    def _values(self, value: Any, context: ImportContext) -> list[Any]:
        """The records in a value: the value itself, or its rows if it only wraps them."""
        rows = rows_of(value)
        if not rows and (context.messages or context.reward):
            return [value] if has_named_fields(value, context) else unwrapped(value) or [value]
        if rows or format_of(value, self._formats) is not None:
            return rows or [value]
        return unwrapped(value) or [value]

    def _read(
        self, value: Any, context: ImportContext, not_finite: bool
    ) -> tuple[str, ImportedRecords]:
        """The format of a value, and the records read from the value.

        Raises:
            FormatMismatch: It matches no format, or violates the one it matches.
        """
        value = with_standard_names(value, context)
        if not_finite:
            value = without_not_finite(value, REWARD_KEYS)
        name = format_of(value, self._formats)
        if len(self._formats) == 1:
            name = next(iter(self._formats))
        if name is None:
            near = nearest_format(value, self._formats)
            hint = f"; the nearest is {near}, with {self._formats[near].expects}" if near else ""
            raise FormatMismatch(f"it does not look like any of the formats{keys_of(value)}{hint}")
        try:
            return name, self._formats[name].read(value, context)
        except RatchetError as error:
            raise FormatMismatch(error.message) from None
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            # An unforeseen shape costs this value only, not those after it.
            raise FormatMismatch(
                f"it is not valid {name}: {type(error).__name__}: {error}"
            ) from None
        except RecursionError:
            raise FormatMismatch("nested too deeply") from None


def _print_reports(reports: list[dict[str, Any]], dry_run: bool, json: bool) -> None:
    if json:
        print_json({"dry_run": dry_run, "files": reports})
        return
    for report in reports:
        read = report["read"]
        counts = _counts(read) or "nothing"
        formats = ", ".join(report["formats"]) or "no known format"
        line = f"{display_path(report['file'])} ({formats}): {counts}"
        out.print(line, markup=False)
        for note in report["notes"]:
            out.print(f"  {note}", style="yellow", markup=False)
        if report["begun_at"]:
            out.print(f"  continued after {report['begun_at']} values stored earlier", markup=False)
        if not dry_run and read:
            new = _counts(report["new"]) or "nothing new: the whole file was stored earlier"
            out.print(f"  new in the store: {new}", markup=False)
        if report["skipped"]:
            out.print(f"  skipped: {report['skipped']}", markup=False)
            for skipped in report["lines"]:
                out.print(f"    line {skipped['line']}: {skipped['why']}", markup=False)
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


def _counts(counts: dict[str, int]) -> str:
    """Counts of each noun, as text."""
    several = {"feedback": "statements of feedback"}
    return ", ".join(
        f"{counts[noun]} {singular if counts[noun] == 1 else several.get(noun, noun)}"
        for noun, singular in _NOUNS.items()
        if counts.get(noun)
    )


BOOKMARKS = "imports.json"
LONG_BYTES = 4 * 1024 * 1024
"""Files larger than this get a progress bar."""

PLAIN_EVERY_S = 10.0
"""Interval of progress lines, in seconds, where output is not a terminal."""


class ReadProgress:
    """Progress of reading a file: a bar, or a line every few seconds where there is no terminal."""

    def __init__(self, file: Path) -> None:
        self._name = file.name
        self._size = file.stat().st_size
        self._bar: Progress | None = None
        self._printed_at = time.monotonic()

    def __enter__(self) -> ReadProgress:
        if self._size > LONG_BYTES and err.is_terminal:
            self._bar = byte_bar()
            self._task = self._bar.add_task(self._name, total=self._size)
            self._bar.start()
        return self

    def at(self, read: int) -> None:
        """Report the number of bytes read."""
        if self._bar is not None:
            self._bar.update(self._task, completed=min(read, self._size))
        elif time.monotonic() - self._printed_at > PLAIN_EVERY_S:
            self._printed_at = time.monotonic()
            share = read / self._size if self._size else 1.0
            err.print(f"  {self._name}: {share:.0%} read", markup=False, highlight=False)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


class Bookmarks:
    """Positions of unfinished imports, by file.

    A bookmark is valid for the same unchanged file and the same destination, and only while the
    records it counts are still stored.

    Args:
        state: The state folder; None stores no bookmarks.
        target: Destination of the records.
    """

    def __init__(self, state: Path | None, target: Any) -> None:
        self._path = None if state is None else state / BOOKMARKS
        self._target = target
        self._key = ""

    def begin(self, file: Path, destination: str) -> int:
        """Number of values of the file that are stored already."""
        status = file.stat()
        self._key = f"{file.resolve()} {status.st_size} {status.st_mtime_ns} {destination}"
        bookmark = self._read().get(self._key)
        if not isinstance(bookmark, dict):
            return 0
        number, trace = bookmark.get("values"), bookmark.get("trace")
        if not isinstance(number, int) or number < 0 or not isinstance(trace, str) or not trace:
            return 0
        return number if self._target.spans.of_trace(trace) else 0

    def put(self, values: int, trace: str) -> None:
        """Record how many values are stored, and the trace of the last."""
        if trace:
            self._write({**self._read(), self._key: {"values": values, "trace": trace}})

    def end(self) -> None:
        """Delete the bookmark, once the file is read to its end."""
        bookmarks = self._read()
        if bookmarks.pop(self._key, None) is not None:
            self._write(bookmarks)

    def _read(self) -> dict[str, Any]:
        if self._path is None:
            return {}
        try:
            bookmarks = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return {}
        return bookmarks if isinstance(bookmarks, dict) else {}

    def _write(self, bookmarks: dict[str, Any]) -> None:
        if self._path is None:
            return
        fresh = self._path.with_suffix(f".{os.getpid()}.tmp")
        # Without a bookmark the next run reads stored records again and skips them.
        with contextlib.suppress(OSError):
            fresh.write_text(json.dumps(bookmarks))
            fresh.replace(self._path)
