"""Settings of the project: its `ratchet.toml` with defaults."""

from __future__ import annotations

from ratchet.autopilot.project_settings import ProjectSettings, read_settings
from ratchet.observe.project_paths import FILE_NAME
from ratchet.server.routes import READ_ONLY, RouteGroup
from ratchet.server.services import Services

group = RouteGroup("settings")


@group.route("GET", "/v1/project-settings", READ_ONLY)
async def get_project_settings(server: Services) -> ProjectSettings:
    """Get budgets, policy, retention and redaction of the project, from its current file.

    A running server took retention and redaction from the file when it started.
    """
    path = None if server.project is None else server.project / FILE_NAME
    if path is None or not path.is_file():
        return ProjectSettings()
    return await server.in_thread(read_settings, path)
