"""Placeholders in settings: {input} stands for a task's input, {input.FIELD} for a field of it.

{fresh} stands for a text that is new each time, such as the id of a conversation.
"""

from __future__ import annotations

import functools
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from ratchet.types import ConfigError, InputError

NamePath: TypeAlias = tuple[str, ...]
"""The names in a placeholder: `input`, and the keys that lead from it to the field."""

FRESH = "fresh"
_ROOTS = ("input", "port", FRESH)

_MEANT = re.compile(
    rf"\{{(?:{'|'.join(_ROOTS)})[.}}]"  # a placeholder in a text
    r"|\A\s*\{{1,2}[A-Za-z_][\w.-]*\}{1,2}\s*\Z"  # nothing else, whatever its name
)
"""Distinguishes a template from a text that happens to have braces, such as shell or awk code."""

_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")

SHOWN_FIELDS = 12


def check_placeholders(setting: Any, where: str, root: str = "input") -> None:
    """Check the placeholders of a setting and of the values in it.

    Args:
        setting: A text, or JSON data with texts in it.
        where: Name of the setting, for messages.
        root: The name that placeholders may begin with.

    Raises:
        ConfigError: A brace is none of a placeholder.
    """
    for text in _texts(setting):
        for part in _parts(text):
            if isinstance(part, str) or (part == (FRESH,) and root == "input"):
                continue
            if part == ():
                raise ConfigError(
                    f"{where} has a single brace beside a placeholder: {text!r}.",
                    hint="Write {{ and }} for literal braces.",
                )
            if part[0] != root or "" in part:
                fields = f", {{{root}.FIELD}} for a field of it" if root == "input" else ""
                stands = "the task's input" if root == "input" else "the service's port"
                raise ConfigError(
                    f"{where} has {{{'.'.join(part)}}}, which is not a placeholder.",
                    hint=f"Write {{{root}}} for {stands}{fields}; {{{{ and }}}} for braces.",
                )


def has_placeholders(setting: Any) -> bool:
    """Whether a setting, or a text in it, has a placeholder."""
    return any(not isinstance(part, str) for text in _texts(setting) for part in _parts(text))


def names_input(setting: Any) -> bool:
    """Whether a setting, or a text in it, takes the task's input or a field of it."""
    return any(part[:1] == ("input",) for text in _texts(setting) for part in _parts(text))


def field_names(setting: Any) -> list[str]:
    """The fields of a task's input that placeholders name, in order; empty for a whole input."""
    parts = (part for text in _texts(setting) for part in _parts(text))
    return list(dict.fromkeys(part[1] for part in parts if part[1:] and not isinstance(part, str)))


def filled(setting: Any, task_input: Any, where: str) -> Any:
    """A setting with a task's input filled in.

    A text that is nothing but a placeholder becomes the value, of whatever type; in a longer text
    the value stands as `as_text` has it.

    Args:
        setting: A text, or JSON data with texts in it.
        task_input: The task's input.
        where: Name of the setting, for messages.

    Raises:
        InputError: The input lacks a field.
    """
    if isinstance(setting, Mapping):
        between = " " if where.endswith("]") else "."
        return {
            key: filled(value, task_input, f"{where}{between}{key}")
            for key, value in setting.items()
        }
    if isinstance(setting, Sequence) and not isinstance(setting, str):
        return [filled(value, task_input, f"{where}.{n}") for n, value in enumerate(setting)]
    if not isinstance(setting, str):
        return setting
    parts = _parts(setting)
    if len(parts) == 1 and not isinstance(parts[0], str):
        return _stands_for(parts[0], task_input, where)
    return filled_text(setting, task_input, where)


def filled_text(setting: str, task_input: Any, where: str) -> str:
    """A text with a value, such as a task's input, filled in; see `filled`."""
    return "".join(
        part if isinstance(part, str) else as_text(_stands_for(part, task_input, where))
        for part in _parts(setting)
    )


def as_text(value: Any) -> str:
    """A text unchanged; any other value as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def value_at(data: Any, names: Sequence[str], what: str) -> Any:
    """The value that keys lead to in JSON data; a number is an index of a list, -1 its last item.

    Args:
        data: The data.
        names: The keys, from the outermost on.
        what: The data's name, for the message.

    Raises:
        InputError: There is none.
    """
    value = data
    for number, name in enumerate(names):
        if isinstance(value, Mapping) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        elif isinstance(value, list) and name == "-1" and value:
            value = value[-1]
        else:
            raise InputError(f"{'.'.join((what, *names[:number]))} {_lacks(value, name)}.")
    return value


def _stands_for(path: NamePath, task_input: Any, where: str) -> Any:
    if path == (FRESH,):
        return str(uuid.uuid4())
    try:
        return value_at(task_input, path[1:], "the task's input")
    except InputError as error:
        raise InputError(f"{where} names {{{'.'.join(path)}}}, but {error.message}") from None


def _lacks(value: Any, name: str) -> str:
    if isinstance(value, Mapping):
        keys = [repr(key) for key in value][:SHOWN_FIELDS]
        more = f" and {len(value) - len(keys)} more" if len(value) > len(keys) else ""
        return f"has no field {name!r}; it has {', '.join(keys) or 'none'}{more}"
    if isinstance(value, list):
        return f"has no item {name!r}; it is a list of {len(value)}"
    kind = "a text" if isinstance(value, str) else f"the value {as_text(value)}"
    return f"has no field {name!r}; it is {kind}"


@functools.lru_cache(maxsize=512)
def _parts(text: str) -> tuple[str | NamePath, ...]:
    """A text's literal parts and placeholders, in order; an empty path is a single brace."""
    if _MEANT.search(text) is None:
        return (text,)
    parts: list[str | NamePath] = []
    end = 0
    for match in _BRACES.finditer(text):
        parts.append(text[end : match.start()])
        end = match.end()
        if match[0] in ("{{", "}}"):
            parts.append(match[0][0])
        else:
            parts.append(() if match[1] is None else tuple(match[1].split(".")))
    parts.append(text[end:])
    return tuple(part for part in parts if part != "")


def _texts(setting: Any) -> Iterator[str]:
    if isinstance(setting, str):
        yield setting
    elif isinstance(setting, Mapping):
        for value in setting.values():
            yield from _texts(value)
    elif isinstance(setting, Sequence):
        for value in setting:
            yield from _texts(value)
