"""Decides which prompts that reached the model can be declared, and under which names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import msgspec

from ratchet.source.literals.data_values import FORMATS, parse, place_of
from ratchet.source.literals.literal import Literal
from ratchet.source.literals.literal_context import blanked, surroundings
from ratchet.source.literals.search import LiteralFile, byte_span, read_file
from ratchet.types import PromptFile
from ratchet.wire.changes import LeftAlone
from ratchet.wire.codemods import PromptLiteral
from ratchet.wire.deriving.prompts import SentPrompt
from ratchet.wire.looking.inventory import Place

CODE = (".py", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")
TEXT = (".txt", ".md", ".markdown", ".j2", ".jinja", ".jinja2", ".prompt", ".tmpl", ".mustache")


class Declarations(msgspec.Struct, frozen=True):
    """Which of the recorded prompts are declared."""

    literals: tuple[PromptLiteral, ...]
    """Prompts in code."""
    files: tuple[PromptFile, ...]
    """Prompts in text or data files, for `[[prompt_files]]`."""
    left: tuple[LeftAlone, ...]


def declarations(root: Path, prompts: Sequence[SentPrompt]) -> Declarations:
    """Decide what to declare: a text that occurs in one place, in code or in a file of its own.

    Args:
        root: The project's folder.
        prompts: The prompts that the recorded run sent.
    """
    sources = [_source(root, prompt) for prompt in prompts]
    copies = Counter(source.text for source in sources)
    literals: list[PromptLiteral] = []
    fields: dict[str, list[str]] = {}
    left: list[LeftAlone] = []
    used_names: set[str] = set()
    for prompt, source in zip(prompts, sources, strict=True):
        ending = PurePosixPath(prompt.path).suffix.lower()
        why = ""
        if copies[source.text] > 1:
            places = (
                f"{twin.path}:{twin.line}"
                for twin, twin_source in zip(prompts, sources, strict=True)
                if twin_source.text == source.text and twin is not prompt
            )
            why = f"The same text is also at {', '.join(places)}: which one was sent is unknown."
        elif ending in CODE:
            name = _free(_name(source), used_names)
            literals.append(PromptLiteral(name, prompt.path, prompt.start, prompt.end))
        elif ending.removeprefix(".") in FORMATS:
            field = _field(source)
            if field is None:
                why = "It is not the value of a single field in this file."
            else:
                fields.setdefault(prompt.path, []).append(field)
        elif ending in TEXT:
            fields.setdefault(prompt.path, [])
        else:
            why = f"Prompts cannot be declared in files of this type: {ending or prompt.path}."
        if why:
            left.append(LeftAlone(prompt.beginning, Place(prompt.path, prompt.line), why))
    files = [PromptFile(path, tuple(names)) for path, names in fields.items()]
    return Declarations(tuple(literals), tuple(_named(files)), tuple(left))


class _Source(NamedTuple):
    """A recorded prompt's literal in its file."""

    file: LiteralFile
    literal: Literal

    @property
    def text(self) -> str:
        """The whole text, with its white space normalised."""
        return " ".join(self.literal.value.split())


def _source(root: Path, prompt: SentPrompt) -> _Source:
    file = read_file((root / prompt.path).read_bytes().decode(), prompt.path)
    span = (prompt.start, prompt.end)
    return _Source(
        file,
        next(literal for literal in file.literals if byte_span(file.text, literal.span) == span),
    )


def _named(files: Sequence[PromptFile]) -> Iterator[PromptFile]:
    """Give files with the same stem different names."""
    stems = Counter(PurePosixPath(file.path).stem for file in files)
    for file in files:
        path = PurePosixPath(file.path)
        if stems[path.stem] > 1:
            name = re.sub(r"[^\w.-]", "-", str(path.with_suffix("")).replace("/", "."))
            file = msgspec.structs.replace(file, name=name)
        yield file


def _name(source: _Source) -> str:
    """The program's name for the text; else the file's name."""
    file = source.file
    around = surroundings(file.text, blanked(file.text, file.literals), source.literal.span)
    words = [name for name in (*around.names, around.function) if name]
    word = next((word for word in words if word.lower() not in _SAYING_NOTHING), "")
    name = re.sub(r"\W+", "_", word.rpartition(".")[2]).strip("_").lower()
    stem = re.sub(r"\W+", "_", PurePosixPath(file.path).stem).strip("_")
    return name if name and name[0].isalpha() else f"{stem}_prompt"


_SAYING_NOTHING = frozenset({"content", "role", "messages", "text", "input", "return", "self"})
"""Names that are too general for a prompt."""


def _free(name: str, used_names: set[str]) -> str:
    free, number = name, 2
    while free in used_names:
        free, number = f"{name}_{number}", number + 1
    used_names.add(free)
    return free


def _field(source: _Source) -> str | None:
    """The keys that lead to a prompt in a data file, joined by dots; None if there are none."""
    file, (start, end) = source.file, source.literal.span
    form = FORMATS[PurePosixPath(file.path).suffix.lower().removeprefix(".")]
    try:
        data = parse(file.text, form)
    except ValueError:
        return None
    for keys, text in _texts(data, ()):
        if " ".join(text.split())[:20] in source.text:
            place = place_of(file.text, form, keys)
            if place is not None and place[0] < end and start < place[1]:
                return ".".join(map(str, keys))
    return None


def _texts(value: Any, keys: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, str):
        yield keys, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(inner, (*keys, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _texts(inner, (*keys, index))
