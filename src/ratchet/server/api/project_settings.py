"""Settings of the project: what its `ratchet.toml` says, with defaults, to look at."""

from __future__ import annotations

from typing import Any

import msgspec

from ratchet.autopilot.config import Config, read_config
from ratchet.observe.project_paths import FILE_NAME
from ratchet.server.problems import Problem
from ratchet.server.routes import READ_ONLY, RouteGroup
from ratchet.server.services import Services
from ratchet.types import ConfigError

group = RouteGroup("settings")

SHOWN = {
    "improve.budget": "What one run may spend",
    "prove": "When a change counts as proved",
    "autopilot": "The autopilot's policy",
    "shadow": "Mirroring live calls to a candidate",
    "canary": "A share of live traffic for a candidate",
    "watch": "Watching a release",
    "ship": "Branches and pull requests",
    "retention": "What is deleted when",
    "redaction": "What is removed before it is stored",
}
"""Sections that are shown. None holds a secret: keys are in environment variables."""


class SettingsSection(msgspec.Struct, frozen=True, kw_only=True):
    """One section of `ratchet.toml`."""

    name: str
    """As in the file, such as `improve.budget`."""
    about: str
    values: dict[str, Any]
    """With defaults where the file says nothing."""
    changed: list[str]
    """Keys that the file sets."""


class ProjectSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the project that the server was started in."""

    sections: list[SettingsSection]
    """Empty when the server was started in no project."""


@group.route("GET", "/v1/project-settings", READ_ONLY)
async def get_project_settings(server: Services) -> ProjectSettings:
    """Get budgets, policy, retention and redaction of the project, as its file says them now.

    A running server took retention and redaction from the file when it started.
    """
    path = None if server.project is None else server.project / FILE_NAME
    if path is None or not path.is_file():
        return ProjectSettings(sections=[])
    try:
        config = await server.in_thread(read_config, path)
    except ConfigError as error:
        raise Problem(422, error.message) from None
    return ProjectSettings(sections=[_section(config, name) for name in SHOWN])


def _section(config: Config, name: str) -> SettingsSection:
    found: Any = config
    for part in name.split("."):
        found = getattr(found, part)
    values = found.model_dump(mode="json", exclude_none=True)
    return SettingsSection(
        name=name, about=SHOWN[name], values=values, changed=sorted(found.model_fields_set)
    )
