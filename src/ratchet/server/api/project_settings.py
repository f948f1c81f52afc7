"""Settings of the project: what its `ratchet.toml` says, with defaults, and changes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from ratchet.autopilot.project_settings import (
    ProjectSettings,
    SettingChange,
    change_setting,
    read_settings,
    why_read_only,
)
from ratchet.observe.project_paths import FILE_NAME
from ratchet.server.access import Caller
from ratchet.server.api.fields import Request
from ratchet.server.http_problems import HttpProblem
from ratchet.server.routes import ADMIN, READ_ONLY, RouteGroup
from ratchet.server.services import Services

group = RouteGroup("settings")


class WantedSetting(Request, frozen=True, kw_only=True):
    """Another value of one setting."""

    value: Annotated[str, Meta(max_length=200)] | None
    """As the file has it after the equals sign; a text needs no quotes. null takes the key out, so
    that its default holds.
    """
    digest: Annotated[str, Meta(min_length=64, max_length=64)]
    """Of the file that the change was decided on."""


@group.route("GET", "/v1/project-settings", READ_ONLY)
async def get_project_settings(server: Services) -> ProjectSettings:
    """Get budgets, policy, retention and redaction of the project, as its file says them now.

    A running server took retention and redaction from the file when it started.
    """
    path = None if server.project is None else server.project / FILE_NAME
    if path is None or not path.is_file():
        return ProjectSettings()
    return await server.in_thread(read_settings, path)


@group.route("POST", "/v1/project-settings/{key}/check", ADMIN)
async def check_project_setting(server: Services, key: str, body: WantedSetting) -> SettingChange:
    """Say how another value would change the file, and what follows. Nothing is changed.

    `key` is a key with its section, such as `improve.budget.rollouts`.
    """
    root = _project(server)
    return await server.in_thread(
        change_setting, root, key, body.value, digest=body.digest, write=False
    )


@group.route("PUT", "/v1/project-settings/{key}", ADMIN)
async def set_project_setting(
    server: Services, key: str, body: WantedSetting, caller: Caller, scope: dict[str, Any]
) -> SettingChange:
    """Change one setting in the file; the audit log gets the old and the new value.

    Comments and all other lines stay. A file that has changed since is refused with 409.
    """
    root = _project(server)
    change = await server.in_thread(change_setting, root, key, body.value, digest=body.digest)
    summary = f"{change.key}: {_said(change.before)} → {_said(change.after)}"
    server.activity_log.audit(caller, {**scope, "path": summary}, "set_project_setting", 200)
    return change


def _project(server: Services) -> Path:
    if server.project is None or not (server.project / FILE_NAME).is_file():
        raise HttpProblem(
            422,
            f"The server was started in no project, so there is no {FILE_NAME} to change.",
            hint="Start ratchet serve in the project's folder.",
        )
    if refusal := why_read_only(server.project / FILE_NAME):
        raise HttpProblem(422, refusal, hint="Change it in an editor.")
    return server.project


def _said(text: str | None) -> str:
    return "not set" if text is None else text
