"""The functions that may be the agent's entry, found in the stacks of the recorded model calls.

An entry encloses all model calls, got the owner's input as an argument, and returned something.
Which of them works is for the verifier to say: it tries them in this order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from ratchet.source.literals.matching import MIN_CONSTANT
from ratchet.types.scripts import size_of
from ratchet.wire.deriving.owner_input import OwnerValue, as_text
from ratchet.wire.deriving.sent_texts import system_texts
from ratchet.wire.recording.recording import Argument, Frame, Recording
from ratchet.worker.placeholders import has_placeholders

RECEIVERS = ("self", "cls")
_NONE: Mapping[Any, str] = {}

_GUARD = re.compile(r"^if\s+__name__\s*==\s*['\"]__main__['\"]", re.MULTILINE)


class EntryPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A function that runs a task, and the value of each of its parameters."""

    entry: str
    """MODULE:FUNCTION, as in ratchet.toml."""
    path: str
    """Folder from which the module is imported, relative to the root."""
    place: str
    """Its file and line."""
    arguments: dict[str, Any]
    """By parameter: a template such as `{input}`, or a constant."""
    construct: dict[str, Any] | None
    """Arguments of the class whose method it is; None for a plain function."""
    task_input: Any
    """The recorded input, as a task has it."""
    output: Any
    """The value that it returned in the recorded run."""
    fields: tuple[str, ...]
    """Names of the task input's fields; empty if it is a single value."""


def entry_points(
    root: Path, recording: Recording, values: Sequence[OwnerValue]
) -> tuple[EntryPoint, ...]:
    """The functions that may be the entry, the outermost first.

    Args:
        root: The project's folder.
        recording: The recorded run.
        values: What the owner gave, as far as it reached a model call.
    """
    owner_values = {as_text(value.value): value for value in values}
    entries = []
    prompts = system_texts(recording)
    for frame in enclosing(recording):
        if frame.module == "__main__" and not _is_guarded(root / frame.file):
            continue  # to import it is to run the agent
        if _is_reachable(frame) and (point := _entry(frame, owner_values, recording)) is not None:
            # A function that gets the prompt is a client: its prompt would stand in the settings.
            constants = [value for value in point.arguments.values() if isinstance(value, str)]
            if not any(_is_prompt(text, prompts) for text in constants):
                entries.append(point)
    # A value that is the argument says more than one somewhere within a larger argument.
    entries.sort(key=lambda entry: _is_nested(entry.task_input, owner_values))
    return tuple(entries)


def enclosing(recording: Recording) -> tuple[Frame, ...]:
    """The repository's frames that are common to all model calls with a known stack."""
    stacks = [call.stack for call in recording.calls if call.stack]
    if not stacks or len(stacks) < len(recording.calls):
        return ()
    shared = set.intersection(*({frame.activation for frame in stack} for stack in stacks))
    return tuple(frame for frame in stacks[0] if frame.activation in shared)


def _is_prompt(text: str, prompts: Sequence[str]) -> bool:
    """Whether a constant is a system prompt, or a part of one that is too long to be there by
    chance."""
    is_long = size_of(text) >= MIN_CONSTANT
    return text in prompts or (is_long and any(text in prompt for prompt in prompts))


def _is_guarded(file: Path) -> bool:
    """Whether a program's own code runs only when it is started, not when it is imported."""
    return _GUARD.search(file.read_text(encoding="utf-8", errors="replace")) is not None


def _is_reachable(frame: Frame) -> bool:
    """Whether a task can call it: it has a name and returns a result."""
    if frame.kind == "module" or "<" in frame.function:
        return False
    returned = frame.returned
    return returned is not None and returned.value is not None


def _entry(
    frame: Frame, owner_values: dict[str, OwnerValue], recording: Recording
) -> EntryPoint | None:
    arguments = frame.arguments
    construct: dict[str, Any] | None = None
    if arguments and arguments[0].name == "self" and "." in frame.function:
        construct = _constructed(frame, recording)
        if construct is None:
            return None
    arguments = tuple(argument for argument in arguments if argument.name not in RECEIVERS)
    inputs = [argument for argument in arguments if _holds(argument.value, owner_values)]
    if not inputs or not all(_is_usable(argument) for argument in inputs):
        return None
    mapped: dict[str, Any] = {}
    for argument in arguments:
        if argument in inputs:
            name = argument.name
            mapped[name] = "{input}" if len(inputs) == 1 else f"{{input.{name}}}"
        elif not argument.is_default and not (argument.name.startswith("*") and not argument.value):
            if not _is_usable(argument):
                return None
            mapped[argument.name] = escaped(argument.value)
    module, path = importable(frame)
    fields = {argument.name: argument.value for argument in inputs}
    assert frame.returned is not None
    return EntryPoint(
        entry=f"{module}:{frame.function}",
        path=path,
        place=f"{frame.file}:{frame.line}",
        arguments=mapped,
        construct=construct,
        task_input=inputs[0].value if len(inputs) == 1 else fields,
        output=frame.returned.value,
        fields=tuple(fields) if len(inputs) > 1 else (),
    )


def _constructed(frame: Frame, recording: Recording) -> dict[str, Any] | None:
    """Arguments of the constructor of the method's object; None if they are unknown."""
    owner = frame.function.rpartition(".")[0]
    for constructor in recording.constructors:
        if constructor.file == frame.file and constructor.function == f"{owner}.__init__":
            return _constants(constructor.arguments)
    return {}  # the class has no constructor of its own


def _constants(arguments: Sequence[Argument]) -> dict[str, Any] | None:
    used = [argument for argument in arguments if not argument.is_default]
    if not all(map(_is_usable, used)):
        return None
    return {argument.name: escaped(argument.value) for argument in used}


def _is_usable(argument: Argument) -> bool:
    """Whether the settings can express the value that the function received; TOML has no null."""
    starred = argument.name.startswith("*")
    return argument.whole and not starred and not _has_null(argument.value)


def _has_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_null, value.values()))
    if isinstance(value, list):
        return any(map(_has_null, value))
    return value is None


def escaped(value: Any, slots: Mapping[Any, str] = _NONE, path: tuple[Any, ...] = ()) -> Any:
    """A constant as written in the settings: braces that look like a placeholder are doubled, and
    at the paths of `slots` stand these placeholders."""
    if path in slots:
        return slots[path]
    if isinstance(value, str):
        return value.replace("{", "{{").replace("}", "}}") if has_placeholders(value) else value
    if isinstance(value, dict):
        return {key: escaped(inner, slots, (*path, key)) for key, inner in value.items()}
    if isinstance(value, list):
        return [escaped(inner, slots, (*path, index)) for index, inner in enumerate(value)]
    return value


def importable(frame: Frame) -> tuple[str, str]:
    """The name by which a frame's module is imported, and the folder that it is imported from."""
    file = PurePosixPath(frame.file)
    path_parts = (*file.parent.parts, file.stem)
    if file.stem == "__init__":
        path_parts = file.parent.parts
    if frame.module != "__main__":
        parts = tuple(frame.module.split("."))
        if path_parts[-len(parts) :] == parts:
            return frame.module, "/".join(path_parts[: -len(parts)]) or "."
    if file.stem == "__main__":  # run by `python -m PACKAGE`, from where the package is seen
        return ".".join(path_parts), "."
    return file.stem, file.parent.as_posix()


def _holds(value: Any, owner_values: dict[str, OwnerValue]) -> bool:
    """Whether a value came from the owner, or is an object with such a value in a field."""
    return as_text(value) in owner_values or any(
        as_text(leaf) in owner_values and not isinstance(leaf, bool | None)
        for leaf in _fields(value)
    )


def _fields(value: Any) -> Iterator[Any]:
    """The leaves of an object, without those in lists of texts (a command line) or messages."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from _fields(inner)
    elif isinstance(value, list):
        for inner in value:
            if isinstance(inner, dict) and not {"role", "content"} <= inner.keys():
                yield from _fields(inner)
    else:
        yield value


def _is_nested(task_input: Any, owner_values: dict[str, OwnerValue]) -> bool:
    values = task_input.values() if isinstance(task_input, dict) else (task_input,)
    return not any(as_text(value) in owner_values for value in values)
