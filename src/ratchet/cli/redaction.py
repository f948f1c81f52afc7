"""The redactor of a folder: with its project's rules, or all built-in rules without a project."""

from __future__ import annotations

import os
from pathlib import Path

from ratchet.autopilot.server_sections import read_server_config
from ratchet.observe.project_paths import FILE_NAME, folder_with_config
from ratchet.observe.redaction import RedactionRules, Redactor, redactor_of


def redactor_of_folder(folder: Path) -> Redactor:
    """The redactor of a folder's project.

    Raises:
        ConfigError: `[redaction]` in its `ratchet.toml` is invalid.
    """
    root = folder_with_config(folder)
    if root is None:
        return redactor_of(RedactionRules(), os.environ)
    settings = read_server_config(root / FILE_NAME).redaction
    return redactor_of(RedactionRules(**settings.model_dump()), os.environ)
