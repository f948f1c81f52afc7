"""The text that tells a coding agent how to use Ratchet: `skills/ratchet/SKILL.md`."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from ratchet.types import ConfigError


def skill_text() -> str:
    """The skill file: in the installed package, or beside it in a checkout."""
    package = Path(str(files("ratchet")))
    for file in (
        package / "_skills" / "ratchet" / "SKILL.md",
        package.parents[1] / "skills" / "ratchet" / "SKILL.md",
    ):
        if file.is_file():
            return file.read_text(encoding="utf-8")
    raise ConfigError(
        "The skill file is missing from this installation.", hint="Reinstall Ratchet."
    )
