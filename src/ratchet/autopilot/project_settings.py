"""Settings of a project: the values in `ratchet.toml`, with defaults and a sentence per key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ratchet.autopilot.config import read_config
from ratchet.autopilot.setting_sentences import ABOUT, SECTION_SENTENCES


class ProjectSetting(msgspec.Struct, frozen=True, kw_only=True):
    """One key of `ratchet.toml`."""

    name: str
    about: str
    """Its meaning, in a sentence."""
    value: Any
    """The value in force; the default if the file does not set it."""
    is_set: bool
    """Whether the file sets it."""


class SettingsSection(msgspec.Struct, frozen=True, kw_only=True):
    """One section of `ratchet.toml`."""

    name: str
    """As in the file, such as `improve.budget`."""
    about: str
    settings: tuple[ProjectSetting, ...]


class ProjectSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The shown sections of a project's `ratchet.toml`."""

    sections: tuple[SettingsSection, ...] = ()
    """Empty when there is no project."""


def read_settings(path: Path) -> ProjectSettings:
    """The shown sections of a configuration file.

    Raises:
        ConfigError: It cannot be read, or is not valid.
    """
    config = read_config(path)
    return ProjectSettings(sections=tuple(_section(config, name) for name in SECTION_SENTENCES))


def _section(config: Any, name: str) -> SettingsSection:
    section = config
    for part in name.split("."):
        section = getattr(section, part)
    settings = tuple(
        ProjectSetting(
            name=key,
            about=ABOUT[name][key],
            value=value,
            is_set=key in section.model_fields_set,
        )
        for key, value in section.model_dump(mode="json").items()
    )
    return SettingsSection(name=name, about=SECTION_SENTENCES[name], settings=settings)
