"""Edits of values outside their declaration: read from a file, or defined elsewhere."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path

from ratchet.ship.config_trace import ReadValue, trace
from ratchet.ship.config_values import ConfigSource, find_value, value_edit
from ratchet.ship.edit import PatchTarget, SourceEdit, changed_since, values_of
from ratchet.ship.literal_patch import declared_prompt, literal_edit
from ratchet.ship.source_file import SourceFile, TextRange
from ratchet.ship.source_slots import (
    UNREADABLE,
    NotLiteral,
    SourceSlot,
    fold_text,
    follow,
    splats,
)
from ratchet.source.literals.data_values import same_value
from ratchet.source.literals.literal import Inexpressible
from ratchet.source.literals.matching import TemplateText
from ratchet.source.literals.source_files import not_edited
from ratchet.types import PromptTemplate, Resource, ShipError


def read_by(source: SourceFile, slot: SourceSlot, root: Path) -> ReadValue | None:
    """The file of the repository that a slot's value is read from."""
    if slot.value is not UNREADABLE or not isinstance(slot.node, ast.expr):
        return None
    read = trace(source, slot.node, root)
    return read if read is not None and read.file.is_relative_to(root) else None


def read_by_splat(
    source: SourceFile, target: PatchTarget, key: str, root: Path
) -> ReadValue | None:
    """Where a parameter passed by `**` is read from."""
    for node in splats(source, target.kind, target.name) if target.kind != "code" else ():
        read = trace(source, node, root)
        if read is not None and read.format and read.file.is_relative_to(root):
            return replace(read, keys=(*read.keys, key))
    return None


def config_edit(
    read: ReadValue,
    declared: PatchTarget,
    key: str,
    old: Resource,
    new: Resource,
    root: Path,
    *,
    as_float: bool,
) -> SourceEdit:
    """The edit of a value that the declaration reads from a YAML, TOML or JSON file."""
    path = read.file.relative_to(root).as_posix()
    before, after = values_of(old)[key], values_of(new)[key]
    what = f"{path}: {'.'.join(map(str, read.keys))}, which is {declared.name}.{key},"
    by_hand = f"Write this there by hand: {after!r}."
    data = read.file.read_bytes()
    source = ConfigSource(data, path, read.format)
    if marker := not_edited(path, data):
        raise ShipError(f"{what} cannot be patched: {marker}.", hint=by_hand)
    slot = find_value(source, read.keys, key)
    if slot is None:
        raise ShipError(
            f"{what} cannot be patched: it is not written out there (it is an alias, a merged or "
            "repeated key, or missing).",
            hint=by_hand,
        )
    value = float(slot.value) if as_float and type(slot.value) is int else slot.value
    try:
        if isinstance(old, PromptTemplate) and isinstance(value, str):
            strip = str.strip if read.stripped else str
            if strip(value) != before:
                raise changed_since(f"{path}:{slot.line}: {declared.name}.{key}", None)
            after = _within(value, before, after) if read.stripped else after
        elif same_value(value, after):
            raise ShipError(
                f"{path}:{slot.line}: {declared.name}.{key} already holds the candidate's value.",
                hint="The change seems to be merged; see `ratchet releases`.",
            )
        elif not same_value(value, before):
            raise changed_since(f"{path}:{slot.line}: {declared.name}.{key}", slot.value)
    except Inexpressible as error:
        raise ShipError(f"{what} cannot be patched: {error}.", hint=by_hand) from None
    target = PatchTarget(
        declared.kind,
        declared.name,
        path,
        format=read.format,
        keys=json.dumps(read.keys),
        slot=key,
    )
    return value_edit(source, target, slot, before, after)


def _within(value: str, before: str, after: str) -> str:
    """A text within the white space that the program strips.

    Raises:
        Inexpressible: The program would strip some of the text, too.
    """
    if after != after.strip():
        raise Inexpressible("the program strips the white space around the new text")
    return value.replace(before, after, 1)


def text_edit(
    source: SourceFile,
    slot: SourceSlot,
    name: str,
    old: PromptTemplate,
    new: PromptTemplate,
    root: Path,
    read: ReadValue | None,
) -> SourceEdit:
    """The edit of a declared prompt whose text comes from an expression, or from a text file.

    Raises:
        ShipError: The text, or the one part of it that changes, has no literal of its own.
    """
    prompt = declared_prompt(
        name,
        old,
        new,
        expression=(source.path, slot.span),
        refusal=f"{source.path}:{slot.line}: {name}.text cannot be patched: {slot.problem}.",
        file=read.file.relative_to(root).as_posix() if read else None,
        keeps_ends=read is not None and not read.stripped,
    )
    try:
        return literal_edit(prompt, old, new, root)
    except ShipError:
        part = _changed_part(source, slot, old.text, new.text)
        if part is None:
            raise
    span, before, after = part
    constant = replace(
        prompt,
        old=TemplateText.of([before], []),
        new=TemplateText.of([after], []),
        expression=(source.path, span),
        kept=True,
    )
    return literal_edit(constant, old, new, root)


def _changed_part(
    source: SourceFile, slot: SourceSlot, old: str, new: str
) -> tuple[TextRange, str, str] | None:
    """The only constant of an expression whose text changes, with its old and new text."""
    parts = []
    for node in ast.walk(slot.node):
        if not isinstance(node, (ast.Name, ast.Attribute)):
            continue
        value, problem = follow(source, node)
        try:
            text = "" if value is node or problem else fold_text(source, value)
        except NotLiteral:
            continue
        head, _, tail = old.partition(text) if text and old.count(text) == 1 else ("", "", "")
        unchanged = len(head) + len(tail)
        if unchanged and unchanged < len(new) and new.startswith(head) and new.endswith(tail):
            parts.append((source.span(value), text, new[len(head) : len(new) - len(tail)]))
    return parts[0] if len(parts) == 1 else None
