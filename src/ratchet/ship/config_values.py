"""Values in YAML, TOML and JSON files: found by the keys that lead to them, and replaced.

A value's place is proved, not parsed: it is the one place whose change makes the file's own parser
read another value under these keys, and the same everywhere else.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ratchet.ship.config_trace import Key
from ratchet.ship.edit import PatchTarget, SourceEdit, same_value
from ratchet.ship.source_file import Span
from ratchet.source.literals.languages import LANGUAGES
from ratchet.source.literals.literal import Inexpressible
from ratchet.source.literals.search import byte_span
from ratchet.source.literals.writing import replacement
from ratchet.types import ShipError

_TOKEN = re.compile(r"(?<![\w.+-])[-+]?[\w.][\w.+-]*")
_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_MAX_PARSED = 10_000_000
"""Characters that are parsed at most to find one value."""

_WORDS = (("true", "false"), ("yes", "no"), ("on", "off"))


@dataclass(frozen=True)
class ConfigSource:
    """A file as bytes with its data."""

    data: bytes
    path: str
    format: str
    """`yaml`, `json` or `toml`."""

    @property
    def newline(self) -> str:
        """The file's own line ending."""
        return "\r\n" if b"\r\n" in self.data else "\n"

    def text(self, span: Span) -> str:
        """The text of a byte span."""
        return self.data[span[0] : span[1]].decode()


@dataclass(frozen=True)
class ConfigSlot:
    """A value in a file."""

    key: str
    span: Span
    line: int
    """1-based."""
    value: Any
    problem: str = ""


def parse(text: str, form: str) -> Any:
    """The data of a file, as its own parser reads it.

    Raises:
        ValueError: It is not of this format.
    """
    text = text.removeprefix("\ufeff")
    if form == "json":
        return json.loads(text)
    if form == "toml":
        return tomllib.loads(text.replace("\r\n", "\n"))
    import yaml

    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except (yaml.YAMLError, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from None


def value_at(data: Any, keys: Sequence[Key]) -> Any:
    """The value under keys; raises LookupError when there is none."""
    for key in keys:
        if not isinstance(data, (dict, list)):
            raise KeyError(key)
        data = data[key]  # type: ignore[index]
    return data


def with_value(data: Any, keys: Sequence[Key], value: Any) -> Any:
    """A copy of data with another value under keys."""
    whole = copy.deepcopy(data)
    inner = whole
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    return whole


def find_value(source: ConfigSource, keys: Sequence[Key], key: str) -> ConfigSlot | None:
    """The place of a number, a boolean or a string; None when it has none of its own.

    Args:
        source: The file.
        keys: What leads to the value.
        key: The slot's name.
    """
    try:
        text = source.data.decode()
        data = parse(text, source.format)
        value = value_at(data, keys)
    except (ValueError, LookupError, TypeError):
        return None
    near = _yaml_range(text, keys) if source.format == "yaml" else (0, len(text))
    probes = list(_probes(source, text, value, near))
    if len(probes) * len(text) > _MAX_PARSED:
        return None
    found = [
        span
        for span, probe, written in probes
        if _reads(text, span, written, source.format, with_value(data, keys, probe))
    ]
    if len(found) != 1:
        return None
    line = text.count("\n", 0, found[0][0]) + 1
    return ConfigSlot(key, byte_span(text, found[0]), line, value)


def _reads(text: str, span: tuple[int, int], written: str, form: str, expected: Any) -> bool:
    """Whether an edited text holds the expected data."""
    try:
        return same_value(parse(text[: span[0]] + written + text[span[1] :], form), expected)
    except ValueError:
        return False


def _yaml_range(text: str, keys: Sequence[Key]) -> tuple[int, int]:
    """Where the value under keys stands, by the marks of YAML's parser; empty if it is nowhere."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    node = yaml.compose(text.removeprefix("\ufeff"), Loader=loader)
    for key in keys:
        inner = None
        if isinstance(node, yaml.MappingNode):
            inner = next((v for k, v in reversed(node.value) if k.value == str(key)), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(key, int):
            inner = node.value[key]
        if inner is None:
            return 0, 0
        node = inner
    lines = [0, *(found.end() for found in _BREAK.finditer(text))]
    shift = int(text.startswith("\ufeff"))
    start, end = (
        lines[mark.line] + mark.column + (0 if mark.line else shift)
        for mark in (node.start_mark, node.end_mark)
    )
    return start, end


def _probes(
    source: ConfigSource, text: str, value: Any, near: tuple[int, int]
) -> Iterator[tuple[tuple[int, int], Any, str]]:
    """Places in a range that may be a value's, with another value and its source there."""
    if isinstance(value, str):
        probe = value + "x"
        read = LANGUAGES[source.format].read
        for literal in read(text)[0]:
            if near[0] <= literal.span[0] < near[1] and literal.value == value:
                try:
                    edit = replacement(text, literal, probe, read)
                except Inexpressible:
                    continue
                yield edit.span, probe, edit.source
    elif isinstance(value, (bool, int, float)):
        other = not value if isinstance(value, bool) else type(value)(2 if value == 1 else 1)
        for token in _TOKEN.finditer(text, *near):
            if same_value(_value_of(token.group(), source.format), value):
                yield token.span(), other, next(_spellings(other, token.group()))


def _value_of(token: str, form: str) -> Any:
    """What a number or a boolean of a format is; None for anything else."""
    try:
        return parse(f"x = {token}", form)["x"] if form == "toml" else parse(token, form)
    except ValueError:
        return None


def _spellings(value: Any, old: str) -> Iterator[str]:
    """Sources of a number or a boolean, in the style of the source it replaces."""
    if isinstance(value, bool):
        for true, false in _WORDS:
            if old.lower() in (true, false):
                word = true if value else false
                yield word.upper() if old.isupper() else word.title() if old.istitle() else word
        yield "true" if value else "false"
        return
    written = repr(value)
    # YAML 1.1 wants a point in every number with an exponent.
    yield re.sub(r"^(-?\d+)e", r"\1.0e", written)
    yield written


def value_edit(
    source: ConfigSource, target: PatchTarget, slot: ConfigSlot, before: Any, after: Any
) -> SourceEdit:
    """The edit that gives a value of a file.

    Raises:
        ShipError: There is none that reads back.
    """
    text = source.data.decode()
    keys = keys_of(target)
    for span, written in _ways(source, text, slot, after):
        old = byte_span(text, span)
        edit = SourceEdit(
            target=target,
            key=slot.key,
            span=old,
            line=slot.line,
            old=source.data[slice(*old)],
            new=written.encode(),
            before=before,
            after=after,
            reads=after,
        )
        expected = with_value(parse(text, source.format), keys, after)
        if _reads(text, span, written, source.format, expected):
            return edit
    raise ShipError(
        f"{source.path}:{slot.line}: {target.name}.{slot.key} has no safe edit.",
        hint=f"Write this there by hand: {after!r}.",
    )


def _ways(
    source: ConfigSource, text: str, slot: ConfigSlot, after: Any
) -> Iterator[tuple[tuple[int, int], str]]:
    if not isinstance(after, str):
        start = len(source.data[: slot.span[0]].decode())
        old = source.text(slot.span)
        for written in _spellings(after, old):
            yield (start, start + len(old)), written
        return
    read = LANGUAGES[source.format].read
    for literal in read(text)[0]:
        if byte_span(text, literal.span) == slot.span:
            try:
                edit = replacement(text, literal, after, read)
            except Inexpressible:
                continue
            yield edit.span, edit.source


def keys_of(target: PatchTarget) -> tuple[Key, ...]:
    """The keys that lead to a target's value."""
    return tuple(json.loads(target.keys))


def verify_config(source: ConfigSource, data: bytes, edits: Sequence[SourceEdit]) -> None:
    """Check that a file holds the new values, and the same others as before."""
    expected = parse(source.data.decode(), source.format)
    for edit in edits:
        expected = with_value(expected, keys_of(edit.target), edit.reads)
    try:
        found = parse(data.decode(), source.format)
    except ValueError:
        raise ShipError(f"{source.path}: the edited file would not parse.") from None
    if not same_value(found, expected):
        raise ShipError(f"{source.path}: the edit would change more than the resource.")
