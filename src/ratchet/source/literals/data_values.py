"""Values in YAML, TOML and JSON texts: found by the keys that lead to them, and replaced.

A value's place is proved, not parsed: it is the one place whose change makes the format's own
parser read another value under these keys, and the same everywhere else.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from ratchet.source.literals.languages import LANGUAGES
from ratchet.source.literals.literal import Inexpressible
from ratchet.source.literals.writing import replacement

Key: TypeAlias = str | int
Range: TypeAlias = tuple[int, int]
"""A range of a text's characters, excluding its end."""

FORMATS = {"yaml": "yaml", "yml": "yaml", "toml": "toml", "json": "json"}
"""Format, by the file name's extension."""

_TOKEN = re.compile(r"(?<![\w.+-])[-+]?[\w.][\w.+-]*")
_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_MAX_PARSED = 10_000_000
"""Maximum number of characters that are parsed to find a value."""

_WORDS = (("true", "false"), ("yes", "no"), ("on", "off"))


def same_value(first: Any, second: Any) -> bool:
    """Equality of value and type: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    return repr(first) == repr(second)


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
    """The value under keys; raises LookupError if there is none."""
    for key in keys:
        if not isinstance(data, (dict, list)):
            raise KeyError(key)
        data = data[key]  # type: ignore[index]
    return data


def with_value(data: Any, keys: Sequence[Key], value: Any) -> Any:
    """A copy of data with another value under keys."""
    copied = copy.deepcopy(data)
    inner = copied
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    return copied


def place_of(text: str, form: str, keys: Sequence[Key]) -> Range | None:
    """Where a number, a Boolean or a string is; None if it has no place of its own.

    Args:
        text: The text.
        form: `yaml`, `json` or `toml`.
        keys: What leads to the value.
    """
    try:
        data = parse(text, form)
        value = value_at(data, keys)
    except (ValueError, LookupError, TypeError):
        return None
    near = _yaml_range(text, keys) if form == "yaml" else (0, len(text))
    probes = list(_probes(text, form, value, near))
    if len(probes) * len(text) > _MAX_PARSED:
        return None
    places = [
        span
        for span, probe, source in probes
        if _reads(text, span, source, form, with_value(data, keys, probe))
    ]
    return places[0] if len(places) == 1 else None


def replaced(
    text: str, form: str, keys: Sequence[Key], place: Range, value: Any
) -> tuple[Range, str] | None:
    """The edit that sets a value in a text: a range and its new source; None without a safe one.

    Args:
        text: The text.
        form: `yaml`, `json` or `toml`.
        keys: What leads to the value.
        place: Where it stands, as `place_of` says.
        value: The new value.
    """
    expected = with_value(parse(text, form), keys, value)
    for span, source in _ways(text, form, place, value):
        if _reads(text, span, source, form, expected):
            return span, source
    return None


def _reads(text: str, span: Range, source: str, form: str, expected: Any) -> bool:
    """Whether an edited text holds the expected data."""
    try:
        return same_value(parse(text[: span[0]] + source + text[span[1] :], form), expected)
    except ValueError:
        return False


def _yaml_range(text: str, keys: Sequence[Key]) -> Range:
    """Where the value under keys is, by the marks of YAML's parser; empty if it is nowhere."""
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
    lines = [0, *(match.end() for match in _BREAK.finditer(text))]
    shift = int(text.startswith("\ufeff"))
    start, end = (
        lines[mark.line] + mark.column + (0 if mark.line else shift)
        for mark in (node.start_mark, node.end_mark)
    )
    return start, end


def _probes(text: str, form: str, value: Any, near: Range) -> Iterator[tuple[Range, Any, str]]:
    """Places in a range that may hold a value, each with another value and its source there."""
    if isinstance(value, str):
        probe = value + "x"
        read = LANGUAGES[form].read
        for literal in read(text)[0]:
            if near[0] <= literal.span[0] < near[1] and literal.value == value:
                try:
                    edit = replacement(text, literal, probe, read)
                except Inexpressible:
                    continue
                yield edit.span, probe, edit.source
    elif isinstance(value, (bool, int, float)):
        probe_value = not value if isinstance(value, bool) else type(value)(2 if value == 1 else 1)
        for token in _TOKEN.finditer(text, *near):
            if same_value(_value_of(token.group(), form), value):
                yield token.span(), probe_value, next(_spellings(probe_value, token.group()))


def _value_of(token: str, form: str) -> Any:
    """Matches a number or a Boolean in a format; None for anything else."""
    try:
        return parse(f"x = {token}", form)["x"] if form == "toml" else parse(token, form)
    except ValueError:
        return None


def _spellings(value: Any, old: str) -> Iterator[str]:
    """Sources of a number or a Boolean, in the style of the source that they replace."""
    if isinstance(value, bool):
        for true, false in _WORDS:
            if old.lower() in (true, false):
                word = true if value else false
                yield word.upper() if old.isupper() else word.title() if old.istitle() else word
        yield "true" if value else "false"
        return
    spelling = repr(value)
    # YAML 1.1 wants a point in every number with an exponent.
    yield re.sub(r"^(-?\d+)e", r"\1.0e", spelling)
    yield spelling


def _ways(text: str, form: str, place: Range, value: Any) -> Iterator[tuple[Range, str]]:
    if not isinstance(value, str):
        for spelling in _spellings(value, text[slice(*place)]):
            yield place, spelling
        return
    read = LANGUAGES[form].read
    for literal in read(text)[0]:
        if literal.span == place:
            try:
                edit = replacement(text, literal, value, read)
            except Inexpressible:
                continue
            yield edit.span, edit.source
