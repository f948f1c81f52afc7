"""The owner's input in the recorded run, and which part of it is the task's input."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

import msgspec

from ratchet.source.literals.data_values import parse
from ratchet.source.literals.source_files import is_code
from ratchet.types.scripts import has_several_words
from ratchet.wire.deriving.text_owners import plain
from ratchet.wire.recording.outside import listing
from ratchet.wire.recording.recording import CommandRun, Recording, ServiceRun

Place = Literal["word", "stdin", "query", "body"]

_NUMBER = re.compile(r"[+-]?[\d.]+(?:e[+-]?\d+)?", re.IGNORECASE)

MAX_CHANCE_LENGTH = 3
"""Number of characters up to which a text may occur in prompts by chance."""

MAX_READ = 65_536
"""Maximum characters read from a file, and maximum bytes of a file that is a task's input."""

MAX_COMPARED = 2_000
"""Maximum number of files that are compared with the texts that reached the model."""

FORMS = {".yaml": "yaml", ".yml": "yaml", ".toml": "toml"}
COMPARED = 400
"""Number of characters at the beginning of a file that are searched for in the model calls."""


class OwnerValue(msgspec.Struct, frozen=True, kw_only=True):
    """A value that the owner wrote: a word of the command, its standard input, a leaf of a body."""

    place: Place
    path: tuple[str | int, ...]
    """The index of a word or of a line (empty for all of standard input), the keys and indices in a
    body, or the name of a query field."""
    value: Any
    """A text; in a body also a number or a Boolean."""
    prefix: str = ""
    """The text before it in its word, such as `--question=`."""

    @property
    def name(self) -> str:
        """A name for it: the option before it, or its key in the body."""
        if self.place in ("body", "query"):
            keys = [key for key in self.path if isinstance(key, str)]
            return keys[-1] if keys else "input"
        return self.prefix.strip("-=").replace("-", "_")


def owner_values(run: CommandRun | ServiceRun) -> tuple[OwnerValue, ...]:
    """The values that may be the task's input, in the order in which they were written."""
    if isinstance(run, ServiceRun):
        query = parse_qsl(urlsplit(run.url).query)
        fields = [OwnerValue(place="query", path=(name,), value=text) for name, text in query]
        return (*fields, *leaves(body_of(run), ()))
    values = list(_words(run.argv))
    stdin = (run.stdin or "").rstrip("\r\n")
    lines = [
        OwnerValue(place="stdin", path=(index,), value=line)
        for index, line in enumerate(stdin.splitlines())
        if line.strip()
    ]
    whole = [OwnerValue(place="stdin", path=(), value=stdin)] if len(lines) > 1 else []
    return (*values, *whole, *lines)


def reached(recording: Recording, values: Sequence[OwnerValue]) -> tuple[OwnerValue, ...]:
    """The values that reached a model call: as an argument of its functions, or in its texts.

    What reached none is part of how the program is started, such as a module's name or a port.
    Standard input that reached one as a whole, such as a diff, is one value. A file that a word
    names and whose content reached one is the input alone: another word stands in its content by
    chance, or is how it is read. Where none reached a text, the only word without an option that a
    function got is one, such as the number of a ticket, whose text the agent looks up.
    """
    arrived = list(named_files(recording, values)) or [
        value for value in values if _reached(recording, value)
    ]
    if not arrived:
        looked_up = [value for value in values if _is_looked_up(recording, value)]
        arrived = looked_up if len(looked_up) == 1 else []
    if any(value.place == "stdin" and not value.path for value in arrived):  # all of it
        arrived = [value for value in arrived if value.place != "stdin" or not value.path]
    return tuple(arrived)


def named_files(recording: Recording, values: Sequence[OwnerValue]) -> tuple[OwnerValue, ...]:
    """The words that name a file of the project whose content reached the model."""
    return tuple(
        value
        for value in values
        if value.place == "word" and _content_reached(recording, as_text(value.value))
    )


def sent_files(recording: Recording, *, settings: bool = False) -> tuple[str, ...]:
    """The files of the project, neither hidden nor large, whose content reached the model in a text
    other than the system's; with `settings`, also YAML and TOML of which any value did.

    Python tells which files it read; of other programs, all are compared.
    """
    root = Path(recording.root)
    read = recording.data_files_read
    if recording.python is None:
        read = tuple(Path(path).relative_to(root).as_posix() for path in listing(root))
    return tuple(
        path
        for path in read[:MAX_COMPARED]
        if not is_code(path)
        and not any(part.startswith(".") for part in path.split("/"))
        and os.path.isfile(root / path)
        and os.path.getsize(root / path) <= MAX_READ
        and _content_reached(recording, path, settings)
    )


def _is_looked_up(recording: Recording, value: OwnerValue) -> bool:
    """Whether a word without an option is an argument of a function that calls the model."""
    text = as_text(value.value)
    if value.place != "word" or value.prefix or len(text) <= MAX_CHANCE_LENGTH:
        return False
    frames = [frame for call in recording.calls for frame in call.stack]
    return any(as_text(got.value) == text for frame in frames for got in frame.arguments)


def _reached(recording: Recording, value: OwnerValue) -> bool:
    text = as_text(value.value)
    for call in recording.calls:
        asked = [sent.text for sent in call.texts if sent.role != "system"]
        arguments = (argument for frame in call.stack for argument in frame.arguments)
        for argument in arguments:
            # A number of turns is an argument too: one that is input also stands in a text.
            is_text = (
                argument.type == "str"
                and len(text) > MAX_CHANCE_LENGTH
                and not _NUMBER.fullmatch(text)
            )
            if as_text(argument.value) == text and (
                is_text or any(_stands_in(text, sent) for sent in asked)
            ):
                return True
        # A word or a number may stand in a system prompt by chance, a sentence does not.
        if len(text) > MAX_CHANCE_LENGTH and any(
            _stands_in(text, sent.text)
            for sent in call.texts
            if sent.role != "system" or has_several_words(text)
        ):
            return True
    return False


def _stands_in(value: str, text: str) -> bool:
    """Whether a value occurs in a text; a single word must not be part of a longer one, as `eval`
    in `evaluated`."""
    if not (value.isascii() and value.isalnum()):
        return value in text
    return re.search(rf"\b{value}\b", text) is not None


def _content_reached(recording: Recording, word: str, settings: bool = False) -> bool:
    """Whether a word names a file of the project whose content reached the model."""
    file = Path(recording.root, word)
    written = {write.path for write in recording.writes}
    # A pipe would be waited for; a long word is no name.
    if not os.path.isfile(file) or os.path.normpath(word) in written:
        return False
    try:
        with file.open(encoding="utf-8") as opened:
            content = opened.read(MAX_READ)
    except (OSError, ValueError):
        return False
    texts = [
        plain(sent.text) for call in recording.calls for sent in call.texts if sent.role != "system"
    ]
    form = FORMS.get(file.suffix, "") if settings else ""
    parts = map(plain, (content[:COMPARED], *_texts_in(content, form)))
    if any(len(part) > MAX_CHANCE_LENGTH and part in text for part in parts for text in texts):
        return True
    lines = [plain(line) for line in content.splitlines() if line.strip()]
    # One request a line.
    return len(lines) > 1 and all(any(line in text for text in texts) for line in lines)


def _texts_in(content: str, form: str) -> list[str]:
    """The texts in a JSON document that are sentences, or in one of a form, such as `yaml`; any
    other content itself."""
    try:
        values = leaves(parse(content, form) if form else decoded(content), ())
    except ValueError:
        return []
    texts = (leaf.value for leaf in values)
    return [text for text in texts if isinstance(text, str) and has_several_words(text)]


def as_text(value: Any) -> str:
    """A value as it would be written in a command line."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False) if value is not None else ""


def body_of(run: ServiceRun) -> Any:
    """The body of a request, decoded; None without one."""
    return run.form or (decoded(run.data) if run.data else None)


def decoded(text: str) -> Any:
    """The value of a JSON text; any other text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _words(argv: Sequence[str]) -> Iterator[OwnerValue]:
    """The words after the program's own, which include an interpreter's module or script."""
    option = ""
    for index in range(_begin(argv), len(argv)):
        word = argv[index]
        if word.startswith("-") and not _NUMBER.fullmatch(word):
            name, equals, value = word.partition("=")
            option = "" if equals else name
            if equals and value:
                yield OwnerValue(place="word", path=(index,), value=value, prefix=f"{name}=")
            continue
        yield OwnerValue(place="word", path=(index,), value=word, prefix=option)
        option = ""


def _begin(argv: Sequence[str]) -> int:
    """Index of the first word that may be input.

    The words up to a module (`-m NAME`) or a script, or the first word, name the program.
    """
    for index, word in enumerate(argv[:-1]):
        if word == "-m":
            return index + 2
    for index, word in enumerate(argv):
        if word.endswith((".py", ".js", ".mjs", ".ts", ".sh", ".rb", ".go")):
            return index + 1
    return 1


def leaves(value: Any, path: tuple[str | int, ...]) -> Iterator[OwnerValue]:
    """The leaves of a JSON value, except nulls, each with its path."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaves(inner, (*path, index))
    elif value is not None:
        yield OwnerValue(place="body", path=path, value=value)
