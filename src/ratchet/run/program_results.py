"""Results of programs: in what they print, respond or write."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ratchet.observe import plain
from ratchet.types import InputError
from ratchet.types.wording import size_text
from ratchet.worker.attempt import MAX_OUTPUT_BYTES
from ratchet.worker.placeholders import value_at
from ratchet.worker.results import joined

MAX_ERROR_CHARACTERS = 1_000
"""Of a service's error that a rollout quotes."""

MAX_STARTS = 64
"""Maximum number of lines that are tried as the beginning of a JSON object or list."""

CLOCK_NS = 20_000_000
"""How far the time of a file may lag behind: Linux counts in ticks of up to 10 ms."""


_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")


def as_shown(text: str) -> str:
    """A text without the sequences that color it in a terminal (ECMA-48), and of each line that was
    written over, as by a progress display, only what it became."""
    return "\n".join(map(_last_version, _ESCAPES.sub("", text).split("\n")))


def _last_version(line: str) -> str:
    written = line.rstrip("\r")
    return written.rpartition("\r")[2] + line[len(written) :]


def result_of(stdout: bytes) -> object:
    """The result in a program's standard output, or in a service's response.

    It is all of it if it is JSON; else a JSON object or list that begins with a line and ends with
    the text, and what is before it is ignored; else the text, stripped, as a terminal shows it.
    """
    text = as_shown(stdout.decode("utf-8", "replace")).strip()
    line, tried = len(text), 0
    start = 0
    while tried < MAX_STARTS:
        try:
            return plain(msgspec.json.decode(text[start:]))
        except (msgspec.DecodeError, RecursionError):
            tried += 1
        while (line := text.rfind("\n", 0, max(line, 0))) >= 0:
            if text[line + 1 : line + 2] in ("{", "["):
                break
        else:
            break
        start = line + 1
    return text


def last_line(stdout: bytes) -> object:
    """The result in the last line of an output that is not blank."""
    return result_of(stdout.rstrip().rpartition(b"\n")[2])


_ENDED = ("ERR_USE_AFTER_CLOSE", "unsettled top-level await", "ExitPromptError")
"""What Node and its prompts print when a question gets no more input."""


def ended_with_input(stderr: str) -> bool:
    """Whether a program failed because its input ended, as a chat loop does when it asks for more.

    Its threads may have said more since, and the error may stand in a group of errors. Prompts of
    click and Typer say that they abort.
    """
    if any(sign in stderr for sign in _ENDED):
        return True
    *_, since = re.split(r"^[ |]*EOFError", stderr, flags=re.MULTILINE)
    if since != stderr and "Traceback (most recent call last)" not in since:
        return True
    return stderr.rstrip().rpartition("\n")[2] in ("Aborted!", "Aborted.")


def result_at(body: bytes, path: str) -> object:
    """The result at a dotted path of a response.

    Raises:
        InputError: The response is not JSON, or has no such value.
    """
    try:
        data = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        raise InputError(f"the response is not JSON, but output names {path!r} in it.") from None
    return plain(value_at(data, path.split("."), "the response"))


def events_of(body: bytes, *, streamed: bool) -> list[bytes]:
    """The data of each event: of server-sent events, or of lines that are each JSON.

    Args:
        body: A service's response.
        streamed: Whether its content type says that it has server-sent events.

    Returns:
        The data; empty if the response is neither.
    """
    body = body.replace(b"\r\n", b"\n")
    if streamed:
        events = []
        for event in body.split(b"\n\n"):
            lines = [
                line[5:].removeprefix(b" ") for line in event.split(b"\n") if line[:5] == b"data:"
            ]
            data = b"\n".join(lines)
            if re.search(rb"^event: ?error$", event, re.MULTILINE) and not _is_error(data):
                data = msgspec.json.encode({"error": data.decode("utf-8", "replace") or "error"})
            if (lines and data != b"[DONE]") or _is_error(data):
                events.append(data)
        return events
    lines = [line for line in body.split(b"\n") if line.strip()]
    return lines if len(lines) > 1 and all(map(_is_object, lines)) else []


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(line), dict)
    except (msgspec.DecodeError, RecursionError):
        return False


def result_of_events(events: Sequence[bytes], path: str) -> object:
    """The result in a stream of events: the values at a dotted path, or all data.

    Texts are joined to one. Events that have nothing at the path are left out.

    Raises:
        InputError: None has, or the stream ended with an error.
    """
    if events and _is_error(events[-1]):
        raise InputError(f"its stream ended with an error: {_tail(events[-1])}")
    results: list[object] = []
    for data in events:
        try:
            results.append(result_at(data, path) if path else result_of(data))
        except InputError:
            continue
    if path and not results:
        raise InputError(f"none of its events has {path!r}, which output names.")
    return joined(results)


def _is_error(event: bytes) -> bool:
    """Whether an event says that the service failed: by its type, or by an error that it gives."""
    try:
        data = msgspec.json.decode(event)
    except (msgspec.DecodeError, RecursionError):
        return False
    return isinstance(data, dict) and (data.get("type") == "error" or bool(data.get("error")))


def _tail(event: bytes) -> str:
    return event.decode("utf-8", "replace").strip()[-MAX_ERROR_CHARACTERS:]


class OutputFile:
    """A file that a command writes its answer into.

    Args:
        path: The file, which may be there from before.
        name: What the command calls it.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self._name = name
        self._result: object = None
        self._missing: InputError | None = None
        self._before = self._mark()
        if self._before is not None and time.time_ns() - self._before[2] < CLOCK_NS:
            time.sleep(CLOCK_NS / 1e9)  # what is written now shall have another time

    def read(self) -> None:
        """Read what the command has written, which `result` returns from now on."""
        after = self._mark()
        try:
            if after is None or after == self._before:
                raise InputError(
                    f"The command did not write {self._name}, the file that should hold its answer."
                )
            self._result = result_in(self.path)
        except InputError as error:
            self._missing = error

    def result(self) -> object:
        """The result that was in the file.

        Raises:
            InputError: The command has not written it, or it could not be read.
        """
        if self._missing is not None:
            raise self._missing
        return self._result

    def _mark(self) -> tuple[int, ...] | None:
        try:
            status = os.lstat(self.path)
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def result_in(path: Path) -> object:
    """The result in a file.

    Raises:
        InputError: It cannot be read, is not a regular file, or is too large.
    """
    try:
        # Neither a link to somewhere else nor a pipe that nobody writes to.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise InputError(f"{path.name} is not a regular file.")
            data = file.read(MAX_OUTPUT_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path.name} cannot be read: {error.strerror}.") from None
    if len(data) > MAX_OUTPUT_BYTES:
        raise InputError(f"{path.name} has more than {size_text(MAX_OUTPUT_BYTES)}.")
    return result_of(data)
