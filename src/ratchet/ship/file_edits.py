"""Edits of the prompts in prompt files: [[prompt_files]] in ratchet.toml."""

from __future__ import annotations

from pathlib import Path

from ratchet.ship.config_trace import ReadValue
from ratchet.ship.edit import PatchTarget, SourceEdit, changed_since
from ratchet.ship.literal_patch import fingerprint, read_text_source
from ratchet.ship.read_edits import config_edit
from ratchet.source.literals.literal import Inexpressible
from ratchet.source.literals.search import byte_span
from ratchet.source.literals.source_files import not_edited
from ratchet.source.literals.writing import replacement
from ratchet.source.prompt_files import format_of, whole_text
from ratchet.types import Declaration, PromptTemplate, Resource, ShipError


def file_edit(declaration: Declaration, old: Resource, new: Resource, root: Path) -> SourceEdit:
    """The edit of a prompt in a prompt file.

    Args:
        declaration: The prompt's file and keys.
        old: The baseline's prompt.
        new: The candidate's.
        root: The folder that may be edited, resolved.

    Raises:
        ShipError: The file is outside it, changed since, or cannot hold the new text.
    """
    name = declaration.name
    assert declaration.file is not None
    file = Path(declaration.file).resolve()
    if not file.is_relative_to(root):
        raise ShipError(
            f"Prompt {name!r} is in {file}, outside the repository {root}.",
            hint="Only files in the repository can be patched.",
        )
    if not isinstance(old, PromptTemplate) or not isinstance(new, PromptTemplate):
        raise ShipError(f"Resource {name!r} is not a prompt; prompt files hold only prompts.")
    if old.engine != new.engine:
        raise ShipError(
            f"The candidate writes prompt {name!r} for {new.engine}, but the source uses "
            f"{old.engine}."
        )
    path = file.relative_to(root).as_posix()
    if declaration.keys:
        read = ReadValue(file, format_of(path), declaration.keys)
        target = PatchTarget("prompt", name, path)
        return config_edit(read, target, "text", old, new, root, as_float=False)
    return _whole(name, path, file, old.text, new.text)


def _whole(name: str, path: str, file: Path, old: str, new: str) -> SourceEdit:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ShipError(f"{path} cannot be read: {error.strerror}.") from None
    if marker := not_edited(path, data):
        raise ShipError(f"{path}, which holds prompt {name}, cannot be patched: {marker}.")
    source = read_text_source(data, path)
    text, read = source.file.text, source.file.language.read
    literal = whole_text(text)
    if literal is None or literal.value != old:
        if literal is not None and literal.value == new:
            raise ShipError(
                f"{path}: {name} already holds the candidate's text.",
                hint="The change seems to be merged; see `ratchet releases`.",
            )
        raise changed_since(f"{path}: {name}", None)
    try:
        edit = replacement(text, literal, new, read)
    except Inexpressible as error:
        raise ShipError(
            f"{path}: the candidate's text of {name!r} cannot be written there: {error}.",
            hint="Write it there by hand.",
        ) from None
    new_literal = whole_text(text[: edit.span[0]] + edit.source + text[edit.span[1] :])
    assert new_literal is not None
    before, after = fingerprint(literal), fingerprint(new_literal)
    language = source.file.language.name
    span = byte_span(text, edit.span)
    return SourceEdit(
        target=PatchTarget("prompt", name, path, None, language, before, after),
        key="text",
        span=span,
        line=source.file.line(literal),
        old=data[slice(*span)],
        new=edit.source.encode(),
        before=old,
        after=new,
        reads=after,
    )
