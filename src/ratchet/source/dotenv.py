"""Variables in a project's `.env`, which programs load by themselves."""

from __future__ import annotations

import re
from pathlib import Path

_LINE = re.compile(r"^\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*?)\s*$", re.MULTILINE)


def read_dotenv(folder: Path) -> dict[str, str]:
    """The variables in the `.env` of a folder, or else of the nearest folder above it in its git
    repository, as loaders of such files search; values are not interpreted."""
    above = (folder, *folder.parents)
    root = next((number for number, place in enumerate(above) if (place / ".git").exists()), 0)
    for place in above[: root + 1]:
        try:
            text = (place / ".env").read_text(errors="replace")
        except OSError:
            continue
        return {name: value.strip("'\"") for name, value in _LINE.findall(text)}
    return {}
