"""Prompts in files: declared by the project, and replaced when the agent opens the file.

The agent's code stays as it is. In a rollout, whoever opens the file for reading gets a private
copy with the candidate's texts. `open`, `io.open` and `pathlib` are covered; `os.open` is not.
"""

from __future__ import annotations

import builtins
import functools
import io
import json
import os
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ratchet.bind import context, registry
from ratchet.types import Declaration, InputError, PromptTemplate
from ratchet.types.template import Engine

_STRUCTURED = (".yaml", ".yml", ".toml", ".json")

_real_open = builtins.open


class PromptFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file with prompts, as the project declares it."""

    path: str
    """Relative to the project's folder."""
    fields: tuple[str, ...] = ()
    """Keys joined by dots, of YAML, TOML and JSON; without any, the whole file is one prompt."""
    name: str = ""
    """First part of the prompts' names; by default the file's name without its ending."""
    engine: Engine | None = None
    """Form of the texts; by default f-string where they are such templates, else plain."""

    def names(self) -> dict[str, str]:
        """Field by the resource's name; the field is empty for the whole file."""
        stem = self.name or Path(self.path).name.partition(".")[0]
        return {f"{stem}.{field}": field for field in self.fields} or {stem: ""}


class _Watched:
    """A file whose prompts are declared."""

    def __init__(self, file: PromptFile, real: str, texts: Mapping[str, str]) -> None:
        self.file = file
        self.real = real
        self.texts = texts
        """Text of the source by resource."""

    def changed(self) -> dict[str, str]:
        """New text by resource, of those that the current context binds to another."""
        found = {}
        for name, text in self.texts.items():
            resource = context.resolve(name)
            if isinstance(resource, PromptTemplate) and resource.text != text:
                found[name] = resource.text
        return found


_watched: dict[str, _Watched] = {}
"""By the real path."""
_basenames: set[str] = set()


def declare_prompt_files(root: Path, files: Sequence[PromptFile]) -> None:
    """Declare the prompts of files, and let opening them give the bound texts.

    Args:
        root: The project's folder.
        files: What it declares.

    Raises:
        InputError: A file is missing, outside the folder or unreadable, or has no such text.
    """
    for file in files:
        path = root / file.path
        real = os.path.realpath(path)
        if not Path(real).is_relative_to(root.resolve()):
            raise InputError(f"prompt_files: {file.path} is outside the project's folder.")
        texts = read_texts(path, file)
        for name, text in texts.items():
            template = _template(text, file.engine)
            site = registry.DeclarationSite(real, "prompt file", None, 0)
            declaration = Declaration(name, template, real, 1, located_by="text")
            registry.declare(name, site, functools.partial(_same, declaration))
        _watched[real] = _Watched(file, real, texts)
        _basenames.add(os.path.basename(real))
        _basenames.add(os.path.basename(path))
    if files:
        _install()


def _same(declaration: Declaration) -> Declaration:
    return declaration


def read_texts(path: Path, file: PromptFile) -> dict[str, str]:
    """The prompts of a file: text by resource name.

    Raises:
        InputError: The file or a field is missing, or a field is no text.
    """
    try:
        with _real_open(path, encoding="utf-8-sig", newline="") as opened:
            text = opened.read()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"prompt_files: {file.path} cannot be read: {error}.",
            hint="Correct path under [[prompt_files]] in ratchet.toml.",
        ) from None
    if not file.fields:
        return {next(iter(file.names())): text}
    data = _parsed(text, file)
    found = {}
    for name, field in file.names().items():
        value: Any = data
        for key in _keys(field, data):
            value = value[int(key)] if isinstance(value, list) else value[key]
        if not isinstance(value, str):
            raise InputError(f"prompt_files: {field} in {file.path} is no text.")
        found[name] = value
    return found


def _parsed(text: str, file: PromptFile) -> Any:
    ending = Path(file.path).suffix.lower()
    try:
        if ending == ".toml":
            return tomllib.loads(text.replace("\r\n", "\n"))
        if ending == ".json":
            return json.loads(text)
        if ending in _STRUCTURED:
            import yaml

            return yaml.safe_load(text)
    except Exception as error:  # each parser has its own
        raise InputError(f"prompt_files: {file.path} does not parse: {error}.") from None
    raise InputError(
        f"prompt_files: {file.path} has no fields; only YAML, TOML and JSON have.",
        hint="Leave fields out: the whole file is then one prompt.",
    )


def _keys(field: str, data: Any) -> list[str]:
    """The keys of a field; a key may itself contain dots."""
    keys: list[str] = []
    rest = field.split(".")
    value = data
    while rest:
        for length in range(1, len(rest) + 1):
            key = ".".join(rest[:length])
            if isinstance(value, dict) and key in value:
                value = value[key]
                break
            if isinstance(value, list) and key.isdigit() and int(key) < len(value):
                value = value[int(key)]
                break
        else:
            raise InputError(
                f"prompt_files: there is no field {field!r}.",
                hint="Correct fields under [[prompt_files]] in ratchet.toml.",
            )
        keys.append(key)
        rest = rest[length:]
    return keys


def _template(text: str, engine: Engine | None) -> PromptTemplate:
    if engine is not None:
        return PromptTemplate(text, engine)
    try:
        return PromptTemplate(text)
    except InputError:
        return PromptTemplate(text, "plain")


def with_texts(source: str, path: str, old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """A file's text with other prompts; everything else stays to the byte.

    Args:
        source: The file's text.
        path: Its path, whose ending tells the format.
        old: Text of each field as it stands.
        new: Text of the fields that change.

    Raises:
        InputError: A field's text cannot be found in one place, or its form cannot hold the new
            text.
    """
    from ratchet.source.literals.languages import language_of
    from ratchet.source.literals.literal import Inexpressible
    from ratchet.source.literals.writing import replacement

    read = language_of(path).read
    for name, text in new.items():
        literals = [one for one in read(source)[0] if one.value == old[name]]
        if len(literals) != 1:
            places = "no place" if not literals else f"{len(literals)} places"
            raise InputError(
                f"prompt_files: the text of {name} stands in {places} of {path}.",
                hint="Each prompt of a file needs a text of its own, in the file itself.",
            )
        try:
            edit = replacement(source, literals[0], text, read)
        except Inexpressible as error:
            raise InputError(f"prompt_files: {path} cannot hold the new {name}: {error}.") from None
        source = source[: edit.span[0]] + edit.source + source[edit.span[1] :]
    return source


def _install() -> None:
    if builtins.open is not _open:
        builtins.open = io.open = _open


def _open(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
    """`open`, but for a file of prompts whose texts are bound to others."""
    if isinstance(file, str | os.PathLike) and not set(mode) & set("wax+"):
        path = os.fspath(file)
        if isinstance(path, str) and os.path.basename(path) in _basenames:
            watched = _watched.get(os.path.realpath(path))
            if watched is not None and (changed := watched.changed()):
                return _opened_copy(watched, changed, mode, *args, **options)
    return _real_open(file, mode, *args, **options)


def _opened_copy(
    watched: _Watched, changed: Mapping[str, str], mode: str, *args: Any, **options: Any
) -> Any:
    with _real_open(watched.real, encoding="utf-8", newline="") as opened:
        source = opened.read()
    if watched.file.fields:
        text = with_texts(source, watched.real, watched.texts, changed)
    else:
        mark = "\ufeff" if source.startswith("\ufeff") else ""
        text = mark + next(iter(changed.values()))
    descriptor, copy = tempfile.mkstemp(prefix="ratchet-", suffix=Path(watched.real).suffix)
    try:
        with _real_open(descriptor, "w", encoding="utf-8", newline="") as written:
            written.write(text)
        return _real_open(copy, mode, *args, **options)
    finally:
        os.unlink(copy)
