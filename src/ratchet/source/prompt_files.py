"""Prompt files: their texts as declarations, and their content with a candidate's texts.

A candidate's content is the source's, byte for byte, with other texts in their places: comments,
order, quotes and line ends stay.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ratchet.types import Declaration, InputError, PromptFile, PromptTemplate, Resource
from ratchet.types.template import Engine
from ratchet.worker.agent import original_bytes

if TYPE_CHECKING:
    from ratchet.source.literals.literal import Literal

_FIELD = re.compile(r"\{\{|\{[^\W\d]\w*\}")
_JINJA = re.compile(r"\{\{|\{%")
_JINJA_ENDINGS = frozenset({".j2", ".jinja", ".jinja2", ".prompty"})
_SHOWN = 12
"""Maximum number of keys that a message lists."""


def declared_prompts(root: Path, files: Iterable[PromptFile]) -> dict[str, Declaration]:
    """The prompts in files, as the source has them, by resource name.

    Args:
        root: The project's folder.
        files: The files.

    Raises:
        InputError: A file or a field is missing, is no text, or cannot be changed by itself; or two
            prompts have one name.
    """
    declarations: dict[str, Declaration] = {}
    for prompt_file in files:
        path = path_of(root, prompt_file)
        data = original_bytes(path)
        for field in prompt_file.fields or ("",):
            declaration = _declaration(prompt_file, field, path, data)
            earlier = declarations.setdefault(declaration.name, declaration)
            if earlier is not declaration:
                raise InputError(
                    f"Two prompts of [[prompt_files]] are named {declaration.name!r}: one in"
                    f" {earlier.file}, one in {path}.",
                    hint='Set another first part of the name for one of the files: name = "…".',
                )
    return declarations


def rendered(
    root: Path, files: Iterable[PromptFile], resources: Mapping[str, Resource]
) -> dict[str, bytes]:
    """The content of files with these texts, by real path; without unchanged files.

    Raises:
        InputError: A file changed, or cannot hold a text.
    """
    return with_texts(declared_prompts(root, files).values(), resources)


def with_texts(
    declarations: Iterable[Declaration], resources: Mapping[str, Resource]
) -> dict[str, bytes]:
    """The content of the files of declared prompts with these texts, as `rendered`.

    Raises:
        InputError: A file changed, or cannot hold a text.
    """
    contents: dict[str, bytes] = {}
    for declaration in declarations:
        resource = resources.get(declaration.name)
        if not isinstance(resource, PromptTemplate) or resource.text == _text(declaration):
            continue
        assert declaration.file is not None
        path = os.path.realpath(declaration.file)
        data = contents.get(path) or original_bytes(Path(path))
        contents[path] = with_text(data, declaration, resource.text)
    return contents


def with_text(data: bytes, declaration: Declaration, text: str) -> bytes:
    """A file's content with another text for one of its prompts.

    Raises:
        InputError: The file cannot hold it.
    """
    from ratchet.source.literals.data_values import place_of, replaced
    from ratchet.source.literals.literal import Inexpressible
    from ratchet.source.literals.text_files import read
    from ratchet.source.literals.writing import replacement

    content = data.decode()
    path = declaration.file or ""
    refusal = f"{path} cannot hold the candidate's text of {declaration.name!r}:"
    if declaration.keys:
        form = format_of(path)
        place = place_of(content, form, declaration.keys)
        changed = place and replaced(content, form, declaration.keys, place, text)
        if not changed:
            raise InputError(
                f"{refusal} no notation of {form.upper()} reads back as this text there."
            )
        (start, stop), source = changed
    else:
        literal = whole_text(content)
        assert literal is not None  # it was declared
        try:
            edit = replacement(content, literal, text, read)
        except Inexpressible as error:
            raise InputError(f"{refusal} {error}.") from None
        (start, stop), source = edit.span, edit.source
    return (content[:start] + source + content[stop:]).encode()


def whole_text(content: str) -> Literal | None:
    """The text of a file that is a single prompt: what follows its front matter, if any."""
    from ratchet.source.literals.text_files import read

    literals, _ = read(content)
    return literals[-1] if literals else None


def path_of(root: Path, prompt_file: PromptFile) -> Path:
    """The real path of a prompt file.

    Raises:
        InputError: There is no such file in the project.
    """
    path = Path(os.path.realpath(root / prompt_file.path))
    if not path.is_relative_to(os.path.realpath(root)):
        raise InputError(
            f"[[prompt_files]] names {prompt_file.path!r}, which is outside the project {root}.",
            hint="Name files in the project.",
        )
    if not path.is_file():
        raise InputError(
            f"[[prompt_files]] names {prompt_file.path!r}, which does not exist in {root}.",
            hint="Correct its path in ratchet.toml, or remove the entry.",
        )
    return path


def format_of(path: str) -> str:
    """`yaml`, `toml` or `json`; empty for a text file."""
    from ratchet.source.literals.data_values import FORMATS

    return FORMATS.get(PurePosixPath(path).suffix.lower().removeprefix("."), "")


def _declaration(prompt_file: PromptFile, field: str, path: Path, data: bytes) -> Declaration:
    content = data.decode()
    keys: tuple[str | int, ...] = ()
    line = 1
    if field:
        text, keys, line = _field(prompt_file, field, content)
    else:
        literal = whole_text(content)
        assert literal is not None  # decoded text holds no half of a UTF-16 pair
        text, line = literal.value, content.count("\n", 0, literal.span[0]) + 1
    name = prompt_file.prompt_name(keys)
    try:
        template = PromptTemplate(text, prompt_file.engine or _engine(text, path))
    except InputError as error:
        raise InputError(f"{prompt_file.path}: {name}: {error.message}", hint=error.hint) from None
    return Declaration(name, template, str(path), line, located_by="file", keys=keys)


def _field(
    prompt_file: PromptFile, field: str, content: str
) -> tuple[str, tuple[str | int, ...], int]:
    """Text, keys and line of a field."""
    from ratchet.source.literals.data_values import parse, place_of, value_at

    form = format_of(prompt_file.path)
    if not form:
        raise InputError(
            f"[[prompt_files]] names fields of {prompt_file.path!r}, which is not a YAML, TOML or "
            "JSON file.",
            hint="Leave out fields: then the whole file is one prompt.",
        )
    try:
        parsed = parse(content, form)
    except ValueError as error:
        raise InputError(f"{prompt_file.path} is not {form.upper()}: {error}.") from None
    keys = _keys(prompt_file, field, parsed)
    value = value_at(parsed, keys)
    if not isinstance(value, str):
        raise InputError(
            f"{prompt_file.path}: the field {field!r} is not a text but {type(value).__name__}.",
            hint="Name fields that hold prompts.",
        )
    place = place_of(content, form, keys)
    if place is None:
        raise InputError(
            f"{prompt_file.path}: the field {field!r} has no place of its own in the file: it is "
            "an alias or a merged or repeated key, whose value others share.",
            hint="Write its text out there, or leave the field out of ratchet.toml.",
        )
    return value, keys, content.count("\n", 0, place[0]) + 1


def _keys(prompt_file: PromptFile, field: str, parsed: object) -> tuple[str | int, ...]:
    """The keys of a field; a key may itself contain dots."""
    keys = _path_to(parsed, field.split("."))
    if keys is None:
        texts = ", ".join(_texts_in(parsed)[:_SHOWN]) or "none"
        raise InputError(
            f"{prompt_file.path} has no field {field!r}. Its texts are: {texts}.",
            hint="Correct fields under [[prompt_files]] in ratchet.toml.",
        )
    return tuple(keys)


def _path_to(value: object, parts: Sequence[str]) -> list[str | int] | None:
    if not parts:
        return []
    if isinstance(value, list):
        inside = parts[0].isdigit() and int(parts[0]) < len(value)
        tail = _path_to(value[int(parts[0])], parts[1:]) if inside else None
        return None if tail is None else [int(parts[0]), *tail]
    for size in range(1, len(parts) + 1) if isinstance(value, dict) else ():
        key = ".".join(parts[:size])
        if key in value:  # type: ignore[operator]
            tail = _path_to(value[key], parts[size:])  # type: ignore[index]
            if tail is not None:
                return [key, *tail]
    return None


def _texts_in(value: object, before: str = "") -> list[str]:
    """The fields of some data that are texts."""
    entries: Iterable[tuple[object, object]] = ()
    if isinstance(value, dict):
        entries = value.items()
    elif isinstance(value, list):
        entries = enumerate(value)
    elif isinstance(value, str) and before:
        return [before]
    return [
        name
        for key, inner in entries
        for name in _texts_in(inner, f"{before}.{key}" if before else str(key))
    ]


def _text(declaration: Declaration) -> str:
    assert isinstance(declaration.resource, PromptTemplate)
    return declaration.resource.text


def _engine(text: str, path: Path) -> Engine:
    """A text's placeholders: a candidate must keep those that something fills."""
    engines: list[Engine] = ["f-string"]
    if path.suffix.lower() in _JINJA_ENDINGS or _JINJA.search(text):
        engines.insert(0, "jinja2")
    for engine in engines:
        try:
            names = PromptTemplate(text, engine).placeholders
        except InputError:
            continue
        if engine == "f-string" and _FIELD.sub("", text).count("{"):
            continue  # Not `{name}` alone: data in braces, such as `{a: 1}`.
        if names:
            return engine
    return "plain"
