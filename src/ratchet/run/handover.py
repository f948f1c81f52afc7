"""How a program is given a task, and where its answer is found."""

from __future__ import annotations

import json
import shlex
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlencode

import msgspec

from ratchet.types import ConfigError, InputError
from ratchet.worker.placeholders import as_text, field_names, filled, filled_text, names_input

LAST_LINE = "last_line"
FILE = "file:"

FORM_TYPE = "application/x-www-form-urlencoded"
"""Content type of a form's fields, in HTML's standard."""


class Handover(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of an agent that is a command or a service; texts may have placeholders."""

    words: tuple[str, ...] = ()
    """Program and arguments of a command."""
    stdin: str | None = None
    """Its standard input; None for the task as JSON, or nothing if the words have placeholders."""
    body: Any = None
    """Body of a request to a service, as JSON data; None for the task as JSON."""
    form: dict[str, str] = {}
    """Fields of a form that is sent to a service instead of JSON."""
    headers: dict[str, str] = {}
    """Headers of a request; $NAME in a value stands for a variable until it is sent."""
    method: str = "POST"
    """HTTP method of a request."""
    input: str = ""
    """FILE and a path, for a command: that file holds the task's input in a rollout's copy."""
    query: dict[str, str] = {}
    """Fields of the URL's query; with them, no body is sent unless one is configured."""
    output: str = ""
    """Where the answer is: LAST_LINE, or FILE and a path, for a command; a dotted path in the
    response for a service; empty for everything that it prints or responds with."""

    def command(self, task_input: Any) -> tuple[tuple[str, ...], bytes | None]:
        """The words of the command for a task's input, and its standard input.

        The latter is None for the task as JSON.

        Raises:
            InputError: The input lacks a field, or has a character that no argument can hold.
        """
        words = tuple(filled_text(word, task_input, "[agent] command") for word in self.words)
        for template, word in zip(self.words, words, strict=True):
            if "\0" in word:
                raise InputError(
                    "The task's input has a NUL character, which no argument can contain: "
                    f"{template} in [agent] command.",
                    hint='Pass it on standard input: stdin = "{input}".',
                )
        if self.stdin is not None:
            return words, filled_text(self.stdin, task_input, "[agent] stdin").encode()
        return words, b"" if self.input or names_input(self.words) else None

    @property
    def input_file(self) -> str:
        """Path of the file with the task's input, relative to the project; empty if none."""
        return self.input.removeprefix(FILE)

    @property
    def takes_input(self) -> bool:
        """Whether any part of a task is passed to the program."""
        if self.input:
            return True
        body = self.form or self.body
        given = (self.stdin, self.query) if self.words else (body, self.query)
        as_json = given[0] is None and not (self.query or names_input(self.words))
        return as_json or names_input([*self.words, *filter(None, given)])

    def fields(self, task_input: Any) -> dict[str, str]:
        """The fields of the URL's query for a task's input.

        Raises:
            InputError: The input lacks a field.
        """
        return _filled_fields(self.query, task_input, "query")

    def request(self, task_input: Any) -> bytes | None:
        """The body of a request for a task's input; None for the task as JSON.

        An input with the fields of the body, down to the one that is {input}, is that body; fields
        that it leaves out keep their values.

        Raises:
            InputError: The input lacks a field.
        """
        if self.form:
            form = _filled_fields(self.form, task_input, "form")
            if isinstance(task_input, dict) and _reads_as(self.form, task_input):
                form |= {name: as_text(value) for name, value in task_input.items()}
            return urlencode(form).encode()
        if self.body is None:
            return None
        body = filled(self.body, task_input, "[agent] body")
        return msgspec.json.encode(
            _overlaid(body, task_input) if _reads_as(self.body, task_input) else body
        )

    def check(self, task_input: Any) -> None:
        """Check that a task's input has the fields that the settings name.

        Raises:
            InputError: It lacks one.
        """
        try:
            self.command(task_input)
            self.request(task_input)
            self.fields(task_input)
        except InputError as error:
            names = field_names(msgspec.structs.asdict(self))
            example = json.dumps(dict.fromkeys(names, "…"), ensure_ascii=False)
            hint = error.hint or f"Give an object as the input: {example}"
            raise InputError(error.message, hint=hint) from None

    def check_input(self) -> None:
        """Check the setting that names the file for the input.

        Raises:
            ConfigError: It names no file below the project's folder.
        """
        if self.input and not (self.input.startswith(FILE) and _is_below(self.input_file)):
            raise ConfigError(
                f'input should be "{FILE}PATH", with a path in the project\'s folder.'
            )

    def check_output(self, is_program: bool, *, is_command: bool) -> None:
        """Check the setting that says where the answer is.

        Raises:
            ConfigError: An agent of this kind cannot have its answer there.
        """
        if self.output and not is_program:
            raise ConfigError("output needs command or url under [agent].")
        if not is_command or self.output in ("", LAST_LINE):
            return
        if not _is_below(self.file):
            raise ConfigError(
                f'output should be "{LAST_LINE}" or "{FILE}PATH", with a path in the project\'s '
                "folder. Without it, the answer is everything that the command prints."
            )

    @property
    def file(self) -> str:
        """Path of the file with the answer, relative to the project; empty if none."""
        return self.output[len(FILE) :] if self.output.startswith(FILE) else ""


def _filled_fields(fields: dict[str, str], task_input: Any, key: str) -> dict[str, str]:
    return {
        name: filled_text(text, task_input, f"[agent.{key}] {name}")
        for name, text in fields.items()
    }


def _reads_as(body: Any, task_input: Any) -> bool:
    """Whether a task's input is a body of this form: it has a value where the body has {input}."""
    if isinstance(body, dict) and isinstance(task_input, dict):
        pairs = [(body.get(name), value) for name, value in task_input.items()]
        return task_input.keys() <= body.keys() and any(_reads_as(*pair) for pair in pairs)
    if isinstance(body, list) and isinstance(task_input, list):
        return any(map(_reads_as, body, task_input))
    return isinstance(body, str) and "{input}" in body and isinstance(task_input, str)


def _overlaid(body: Any, given: Any) -> Any:
    """A body with the fields that are given in place of its own."""
    if not isinstance(body, dict) or not isinstance(given, dict):
        return given
    return body | {name: _overlaid(body.get(name), value) for name, value in given.items()}


def _is_below(file: str) -> bool:
    """Whether a path names something in the project."""
    path = PurePosixPath(file)
    return bool(file) and not path.is_absolute() and ".." not in path.parts


def parse_command(line: str) -> tuple[str, ...]:
    """Split a command line into program and arguments as a shell would; no shell runs it.

    Raises:
        ConfigError: It is empty, or a quote is not closed.
    """
    try:
        parts = tuple(shlex.split(line))
    except ValueError as error:
        raise ConfigError(f"The command {line!r} cannot be parsed: {error}.") from None
    if not parts:
        raise ConfigError("The command is empty.", hint='Give one: --command "node agent.js"')
    return parts
