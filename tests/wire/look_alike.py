"""A small repository with its facts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

LONG = "You plan the shelves of a public library and explain each choice to the staff in charge."


@dataclass(frozen=True)
class LookAlike:
    """A repository and its facts."""

    name: str
    files: dict[str, str]
    framework: str
    entry: str
    """`path:name` of one entry point, with ` started` if a command starts it; empty if none."""
    prompts: tuple[str, ...]
    """`path:line`, or the path of a file of prompts."""
    effects: tuple[str, ...] = field(default=())
    """`kind path`."""
    tests: tuple[str, ...] = field(default=())
    """`project: command`."""
    tracing: tuple[str, ...] = field(default=())
    """`name path`, with ` global` where a global provider is set."""
    data: tuple[str, ...] = field(default=())
    """`path: input -> expected`."""

    def write(self, folder: Path) -> Path:
        """Write it, and return its folder."""
        root = folder / self.name
        for path, text in self.files.items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8", newline="")
        return root
