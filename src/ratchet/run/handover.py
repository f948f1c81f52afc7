"""What a program is given of a task, and where in what it produces its answer is."""

from __future__ import annotations

import os
import shlex
import stat
import time
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from ratchet.observe import plain
from ratchet.types import ConfigError, InputError
from ratchet.worker.placeholders import filled, filled_text, has_placeholders, value_at
from ratchet.worker.results import joined

LAST_LINE = "last_line"
FILE = "file:"

MOST_STARTS = 64
"""Lines of a text that are tried as the beginning of a JSON object or list."""

CLOCK_NS = 20_000_000
"""How far the time of a file may lag behind: Linux counts in ticks of up to 10 ms."""


class Handover(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of an agent that is a command or a service; texts may have placeholders."""

    words: tuple[str, ...] = ()
    """Program and arguments of a command."""
    stdin: str | None = None
    """Its standard input; None for the task as JSON, or nothing if the words have placeholders."""
    body: Any = None
    """Body of a request to a service, as JSON data; None for the task as JSON."""
    method: str = "POST"
    """HTTP method of a request."""
    query: dict[str, str] = {}
    """Fields of the URL's query; with them no body is sent but a configured one."""
    output: str = ""
    """Where the answer is: LAST_LINE or FILE and a path for a command, a dotted path in the
    response of a service; empty for all that it prints or responds with."""

    def command(self, given: Any) -> tuple[tuple[str, ...], bytes | None]:
        """The words of the command for a task's input, and its standard input.

        The latter is None for the task as JSON.

        Raises:
            InputError: The input lacks a field, or has a character that no argument can hold.
        """
        words = tuple(filled_text(word, given, "[agent] command") for word in self.words)
        for template, word in zip(self.words, words, strict=True):
            if "\0" in word:
                raise InputError(
                    f"The task's input has a NUL character, which no argument can hold: {template}"
                    " in [agent] command.",
                    hint='Give it on standard input: stdin = "{input}".',
                )
        if self.stdin is not None:
            return words, filled_text(self.stdin, given, "[agent] stdin").encode()
        return words, b"" if has_placeholders(self.words) else None

    def fields(self, given: Any) -> dict[str, str]:
        """The fields of the URL's query for a task's input.

        Raises:
            InputError: The input lacks a field.
        """
        return {
            name: filled_text(text, given, f"[agent.query] {name}")
            for name, text in self.query.items()
        }

    def request(self, given: Any) -> bytes | None:
        """The body of a request for a task's input; None for the task as JSON.

        Raises:
            InputError: The input lacks a field.
        """
        if self.body is None:
            return None
        return msgspec.json.encode(filled(self.body, given, "[agent] body"))

    def check(self, given: Any) -> None:
        """Check that a task's input has what the settings name.

        Raises:
            InputError: It has not.
        """
        self.command(given)
        self.request(given)
        self.fields(given)

    def check_output(self, is_program: bool, *, is_command: bool) -> None:
        """Check where the answer is.

        Raises:
            ConfigError: An agent of this kind has none there.
        """
        if self.output and not is_program:
            raise ConfigError("output belongs to an agent with command or url.")
        if not is_command or self.output in ("", LAST_LINE):
            return
        path = PurePosixPath(self.file)
        if not self.file or path.is_absolute() or ".." in path.parts:
            raise ConfigError(
                f'output should be "{LAST_LINE}" or "{FILE}PATH", a path below ratchet.toml; or'
                " be left out: then the answer is all that the command prints."
            )

    @property
    def file(self) -> str:
        """Path of the file that holds the answer, relative to the project; empty for none."""
        return self.output[len(FILE) :] if self.output.startswith(FILE) else ""


def parse_command(line: str) -> tuple[str, ...]:
    """Split a command line into program and arguments as a shell would; no shell runs it.

    Raises:
        ConfigError: It is empty, or a quote is not closed.
    """
    try:
        parts = tuple(shlex.split(line))
    except ValueError as error:
        raise ConfigError(f"The command {line!r} cannot be read: {error}.") from None
    if not parts:
        raise ConfigError("The command is empty.", hint='Give one: --command "node agent.js"')
    return parts


def result_of(stdout: bytes) -> object:
    """The result in a program's standard output, or in a service's response.

    It is all of it if it is JSON; else a JSON object or list that begins with a line and ends with
    the text, and what is before it is ignored; else the text, stripped.
    """
    text = stdout.decode("utf-8", "replace").strip()
    line, tried = len(text), 0
    start = 0
    while tried < MOST_STARTS:
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


def result_at(body: bytes, path: str) -> object:
    """The result at a dotted path of a response.

    Raises:
        InputError: The response is no JSON, or has no such value.
    """
    try:
        data = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        raise InputError(f"the response is no JSON, and output names {path!r} in it.") from None
    return plain(value_at(data, path.split("."), "the response"))


def result_of_events(body: bytes, path: str) -> object:
    """The result in a stream of server-sent events: what they hold at a dotted path, or all data.

    Texts are joined to one. Events that have nothing at the path are left out.

    Raises:
        InputError: None has.
    """
    found: list[object] = []
    for event in body.replace(b"\r\n", b"\n").split(b"\n\n"):
        lines = [line[5:].removeprefix(b" ") for line in event.split(b"\n") if line[:5] == b"data:"]
        data = b"\n".join(lines)
        if not lines or data == b"[DONE]":
            continue
        try:
            found.append(result_at(data, path) if path else result_of(data))
        except InputError:
            continue
    if path and not found:
        raise InputError(f"none of its events has {path!r}, which output names.")
    return joined(found)


class OutputFile:
    """A file that a command writes its answer into.

    Args:
        path: The file, which may be there from before.
    """

    def __init__(self, path: Path) -> None:
        self.path = self._path = path
        self._before = self._mark()
        if self._before is not None and time.time_ns() - self._before[2] < CLOCK_NS:
            time.sleep(CLOCK_NS / 1e9)  # what is written now shall have another time

    def result(self) -> object:
        """The result in the file.

        Raises:
            InputError: The command has not written it, or it cannot be read.
        """
        # Imported late: reading a project is fast.
        from ratchet.worker.attempt import MAX_OUTPUT_BYTES

        after = self._mark()
        if after is None or after == self._before:
            raise InputError(f"The command wrote no {self._path.name}, where its answer should be.")
        try:
            # Neither a link to somewhere else nor a pipe that nobody writes to.
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise InputError(f"{self._path.name} is no regular file.")
                data = file.read(MAX_OUTPUT_BYTES + 1)
        except OSError as error:
            raise InputError(f"{self._path.name} cannot be read: {error.strerror}.") from None
        if len(data) > MAX_OUTPUT_BYTES:
            raise InputError(f"{self._path.name} has more than {MAX_OUTPUT_BYTES} bytes.")
        return result_of(data)

    def _mark(self) -> tuple[int, ...] | None:
        try:
            found = os.lstat(self._path)
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
