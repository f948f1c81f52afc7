"""Settings of a project: what `ratchet.toml` says, and changes of single keys of it."""

from __future__ import annotations

import copy
import difflib
import hashlib
import os
import re
import shutil
import tempfile
import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec
from pydantic import BaseModel

from ratchet.autopilot.changeable import ABOUT, CHANGEABLE, SHOWN, what_follows, why_fixed
from ratchet.autopilot.config import Config
from ratchet.autopilot.sections import parse_sections
from ratchet.autopilot.setting_edit import with_value
from ratchet.observe.project_paths import FILE_NAME, prepare_state
from ratchet.run import FileLock
from ratchet.types import ConfigError, Conflict, InputError
from ratchet.wire.project_files.toml_text import toml_text

_NUMBER = re.compile(r"[+-]?[0-9][0-9_]*(\.[0-9][0-9_]*)?([eE][+-]?[0-9]+)?")
_STRING = re.compile(r"'[^'\r\n]*'|\"[^\"\\\r\n]*\"")


class ProjectSetting(msgspec.Struct, frozen=True, kw_only=True):
    """One key of `ratchet.toml`."""

    name: str
    about: str
    """What it says, in a sentence."""
    value: Any
    """The value in force; the default where the file says nothing."""
    default: Any
    text: str | None
    """The value as the file has it, of keys that can be changed; None where it says nothing."""
    is_set: bool
    """Whether the file sets it."""
    kind: Literal["number", "boolean", "choice", "text", "other"]
    choices: tuple[str, ...] = ()
    fixed: str = ""
    """Why it can be changed in the file only; empty when it can be changed here."""


class SettingsSection(msgspec.Struct, frozen=True, kw_only=True):
    """One section of `ratchet.toml`."""

    name: str
    """As in the file, such as `improve.budget`."""
    about: str
    settings: tuple[ProjectSetting, ...]


class ProjectSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the shown sections of a project's `ratchet.toml` say."""

    sections: tuple[SettingsSection, ...] = ()
    """None when there is no project."""
    digest: str = ""
    """SHA-256 of the file; a change names the one that it was decided on."""
    read_only: str = ""
    """Why the file cannot be changed here; empty when it can."""


class SettingChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of one key of `ratchet.toml`."""

    key: str
    """With its section, such as `improve.budget.rollouts`."""
    before: str | None
    """What the file said; None for nothing. Put this back to undo the change."""
    after: str | None
    diff: tuple[str, ...]
    """Lines that change, each after `-` or `+`."""
    line: int
    """Number of the first of them."""
    follows: str
    """When it takes effect, and which processes must be restarted."""
    digest: str
    """SHA-256 of the file with the change."""
    written: bool
    """Whether the file was changed, or this only says how it would be."""


def read_settings(path: Path) -> ProjectSettings:
    """The shown sections of a configuration file.

    Raises:
        ConfigError: It cannot be read, or is not valid.
    """
    data = _read(path)
    config = parse_sections(data, path, Config)
    return ProjectSettings(
        sections=tuple(_section(config, name, data) for name in SHOWN),
        digest=_digest(data),
        read_only=why_read_only(path),
    )


def why_read_only(path: Path) -> str:
    """Why this process cannot change a file; empty when it can."""
    resolved = path.resolve()
    if os.access(resolved, os.W_OK) and os.access(resolved.parent, os.W_OK):
        return ""
    return f"{resolved} cannot be written by this process."


def change_setting(
    root: Path, key: str, value: str | None, *, digest: str | None = None, write: bool = True
) -> SettingChange:
    """Change one key of a project's `ratchet.toml`; comments and all other lines stay.

    The file is checked as it is when it is read, and is replaced in one step, or not at all.

    Args:
        root: The project's folder.
        key: The key with its section, such as `improve.budget.rollouts`.
        value: As the file has it after the equals sign; a text needs no quotes. None takes the key
            out, so that its default holds.
        digest: Of the file that the change was decided on; any version by default.
        write: False only says how the file would change.

    Raises:
        InputError: The key is unknown, or has this value already.
        ConfigError: It can be changed in the file only, the value is not valid, or the file cannot
            be written.
        Conflict: The file is another one by now.
    """
    section, name = _named(key)
    path = (root / FILE_NAME).resolve()
    if not write:
        return _changed(path, section, name, value, digest)[0]
    lock = FileLock(prepare_state(root) / "locks" / "settings.lock", f"A change of {FILE_NAME}")
    lock.acquire(wait=True)
    try:
        change, before, after = _changed(path, section, name, value, digest)
        _replace(path, before, after)
    finally:
        lock.release()
    return msgspec.structs.replace(change, written=True)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _named(key: str) -> tuple[str, str]:
    """The section and the name of a key that can be changed."""
    section, _, name = key.rpartition(".")
    if _is_known(key):
        if fixed := why_fixed(section, name):
            raise ConfigError(f"{key} cannot be changed here. {fixed}")
        return section, name
    changeable_keys = [
        f"{section_name}.{setting_name}"
        for section_name, names in CHANGEABLE.items()
        for setting_name in names
    ]
    near = difflib.get_close_matches(key, changeable_keys, n=1, cutoff=0.7)
    raise InputError(
        f"There is no setting {key!r}.",
        hint=f"Did you mean {near[0]}?" if near else "See: ratchet config list.",
    )


def _is_known(key: str) -> bool:
    """Whether the schema has a key."""
    model: Any = Config
    for part in key.split("."):
        if not _is_section(model) or part not in model.model_fields:
            return False
        model = model.model_fields[part].annotation
    return "." in key and not _is_section(model)


def _is_section(model: Any) -> bool:
    return isinstance(model, type) and issubclass(model, BaseModel)


def _changed(
    path: Path, section: str, name: str, value: str | None, digest: str | None
) -> tuple[SettingChange, bytes, bytes]:
    before = _read(path)
    parse_sections(before, path, Config)  # a file that is wrong already gets its own sentence
    if digest is not None and digest != _digest(before):
        raise Conflict(
            f"{path.name} has changed since it was read; nothing was changed.",
            hint="Read it again, and decide anew.",
        )
    old = _text_of(before, section, name)
    new = None if value is None else _written(value)
    if new == old:
        says = f"says so already: {name} = {old}" if old else f"does not set {name}"
        raise InputError(f"[{section}] in {path.name} {says}.")
    after = _edited(before, section, name, new, path)
    parse_sections(after, path, Config)
    diff, line = _diff(before, after)
    change = SettingChange(
        key=f"{section}.{name}",
        before=old,
        after=new,
        diff=diff,
        line=line,
        follows=what_follows(section, name),
        digest=_digest(after),
        written=False,
    )
    return change, before, after


def _edited(before: bytes, section: str, name: str, new: str | None, path: Path) -> bytes:
    """The file with the key changed, and with nothing else changed."""
    parts = tuple(section.split("."))
    after = with_value(before.decode(), parts, name, new).encode()
    expected = copy.deepcopy(_tables(before))
    table = expected
    for part in parts:
        table = table.setdefault(part, {})
    if new is None:
        del table[name]
    else:
        table[name] = tomllib.loads(f"x = {new}")["x"]
    try:
        tables = _tables(after)
    except ValueError:
        tables = {}
    if _without_empty(tables) != _without_empty(expected):
        raise ConfigError(
            f"{section}.{name} cannot be changed in {path.name} without changing more than it.",
            hint="Change it in the file.",
        )
    return after


def _without_empty(tables: Any) -> Any:
    if not isinstance(tables, dict):
        return tables
    cleaned = {key: _without_empty(value) for key, value in tables.items()}
    return {key: value for key, value in cleaned.items() if value != {}}


def _written(value: str) -> str:
    """A value as TOML; the spelling of a number, a truth value or a quoted text is kept."""
    text = value.strip()
    if text in ("true", "false") or _NUMBER.fullmatch(text) or _STRING.fullmatch(text):
        try:
            tomllib.loads(f"x = {text}")
        except ValueError:  # 007, or a control character in quotes
            pass
        else:
            return text
    return toml_text({"x": text}, {}).removeprefix("x = ").rstrip("\n")


def _text_of(data: bytes, section: str, name: str) -> str | None:
    """What the file has for a key, as it can be written again."""
    table: Any = _tables(data)
    for part in section.split("."):
        table = table.get(part, {}) if isinstance(table, dict) else {}
    if name not in table:
        return None
    marker = "\ue000"  # no number, truth value or choice
    edited = with_value(data.decode(), tuple(section.split(".")), name, f'"{marker}"')
    start = edited.index(f'"{marker}"')
    tail = len(edited) - start - len(marker) - 2
    text = data.decode()
    return text[start : len(text) - tail]


def _diff(before: bytes, after: bytes) -> tuple[tuple[str, ...], int]:
    old, new = before.decode().splitlines(), after.decode().splitlines()
    lines: list[str] = []
    first = 0
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for tag, begin, end, at, until in matcher.get_opcodes():
        if tag == "equal":
            continue
        first = first or begin + 1
        lines += [f"- {line}" for line in old[begin:end]]
        lines += [f"+ {line}" for line in new[at:until]]
    return tuple(lines), first


def _section(config: Config, name: str, data: bytes) -> SettingsSection:
    section: Any = config
    for part in name.split("."):
        section = getattr(section, part)
    schema = type(section).model_json_schema()["properties"]
    values = section.model_dump(mode="json")
    defaults = type(section)().model_dump(mode="json")
    settings = []
    for setting, value in values.items():
        fixed, text = why_fixed(name, setting), None
        if not fixed:
            try:
                text = _text_of(data, name, setting)
            except ConfigError as error:
                fixed = str(error)
        kind, choices = _kind(schema[setting])
        settings.append(
            ProjectSetting(
                name=setting,
                about=ABOUT[name][setting],
                value=value,
                default=defaults[setting],
                text=text,
                is_set=setting in section.model_fields_set,
                kind=kind,
                choices=choices,
                fixed=fixed,
            )
        )
    return SettingsSection(name=name, about=SHOWN[name], settings=tuple(settings))


_KINDS: dict[str, Literal["number", "boolean", "text"]] = {
    "number": "number",
    "integer": "number",
    "boolean": "boolean",
    "string": "text",
}


def _kind(
    schema: dict[str, Any],
) -> tuple[Literal["number", "boolean", "choice", "text", "other"], tuple[str, ...]]:
    options = [option for option in schema.get("anyOf", [schema]) if option.get("type") != "null"]
    if len(options) != 1:
        return "other", ()
    if "enum" in options[0]:
        return "choice", tuple(options[0]["enum"])
    return _KINDS.get(options[0].get("type", ""), "other"), ()


def _tables(data: bytes) -> dict[str, Any]:
    return tomllib.loads(data.decode("utf-8-sig").replace("\r\n", "\n"))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from None


def _replace(path: Path, before: bytes, after: bytes) -> None:
    """Replace the file in one step, unless somebody else has changed it."""
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as stream:
            stream.write(after)
            stream.flush()
            os.fsync(stream.fileno())
        shutil.copymode(path, temporary)
        if _read(path) != before:
            raise Conflict(f"{path.name} was changed meanwhile; its new content stays.")
        os.replace(temporary, path)
        temporary = ""
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}.",
            hint="Make its folder writable, or change it in an editor.",
        ) from None
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
