"""Print what each level of sandbox contains, as the table of docs/sandbox.md.

    python -m tests.sandbox [--check]

Every hostile program is run at every level that this machine has, and with what older kernels have
in place of it. `--check` compares the table with the one in the handbook instead.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

from ratchet.sandbox.inside import landlock
from ratchet.sandbox.levels import why_no_bubblewrap, why_no_landlock
from tests.sandbox.hostile import PROGRAMS
from tests.sandbox.suite import Outcome, measured

LEVELS = {
    "bubblewrap": ("bubblewrap", 99),
    "bubblewrap, kernel without Landlock": ("bubblewrap", 0),
    "landlock": ("landlock", 99),
    "landlock of Linux 5.13": ("landlock", 1),
    "none": ("none", 0),
}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "sandbox.md"
HEAD = "| program | what it tries | bubblewrap | landlock | none |"


def main(arguments: list[str]) -> int:
    """Measure, and print or compare."""
    found = {name: asyncio.run(measured(*how)) for name, how in LEVELS.items() if _is_here(how)}
    rows = table(found)
    if "--check" in arguments:
        missing = [row for row in rows if row not in PAGE.read_text().splitlines()]
        print(
            "\n".join(["The page says otherwise:", *missing] if missing else ["The page is right."])
        )
        return 1 if missing else 0
    print("\n".join(rows))
    print()
    for name, outcomes in found.items():
        contained = [o for o in outcomes.values() if o is not None and o.contained]
        tried = [o for o in outcomes.values() if o is not None]
        print(f"{name}: {len(contained)} contained of {len(tried)} tried")
    print(f"Landlock's version here: {landlock.version()}")
    return 0


def _is_here(how: tuple[str, int]) -> bool:
    why = {"bubblewrap": why_no_bubblewrap, "landlock": why_no_landlock}
    return how[0] == "none" or not why[how[0]]()


def table(found: Mapping[str, Mapping[str, Outcome | None]]) -> list[str]:
    """The rows of the table, in the order of the programs."""
    rows = [HEAD, "|---|---|---|---|---|"]
    for name, program in PROGRAMS.items():
        marks = [_mark(found, level, name) for level in ("bubblewrap", "landlock", "none")]
        rows.append(f"| `{name}` | {program.does} | {' | '.join(marks)} |")
    return rows


def _mark(found: Mapping[str, Mapping[str, Outcome | None]], level: str, name: str) -> str:
    if level not in found:
        return "?"
    outcome = found[level][name]
    if outcome is None:
        return "not tried"
    return "contained" if outcome.contained else "**no**"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
