"""`ratchet config`: the settings in `ratchet.toml`, with defaults, as the dashboard shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ratchet.autopilot.project_settings import read_settings
from ratchet.cli.console import Folder, Json, out, print_json, project_in, table
from ratchet.observe.project_paths import FILE_NAME


def config(folder: Folder = Path("."), json: Json = False) -> None:
    """List budgets, policy, retention and redaction, from ratchet.toml or its defaults.

    To change one, edit ratchet.toml: ratchet doctor checks it.

    Examples:

      ratchet config

      ratchet config --json
    """
    settings = read_settings(project_in(folder).root / FILE_NAME)
    if json:
        print_json(settings)
        return
    rows = table("setting", "value", "set", "about")
    for section in settings.sections:
        for setting in section.settings:
            mark = "yes" if setting.is_set else ""
            rows.add_row(
                f"{section.name}.{setting.name}", _said(setting.value), mark, setting.about
            )
    out.print(rows)


def _said(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return str(value) or "none"
