"""The table of states in the handbook is the table of the code."""

from __future__ import annotations

import re
from pathlib import Path

from ratchet.types import CYCLE_LIMITS, CYCLE_TRANSITIONS

PAGE = Path(__file__).parents[3] / "docs" / "autopilot.md"
UNITS = {"minutes": 60.0, "days": 86_400.0}


def rows() -> list[list[str]]:
    section = PAGE.read_text().partition("## States\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_states_and_their_successors_are_those_of_the_code() -> None:
    stated = {row[0].strip("`"): set(re.findall(r"`(\w+)`", row[2])) for row in rows()}
    assert stated == {state: set(targets) for state, targets in CYCLE_TRANSITIONS.items()}


def test_the_limits_are_those_of_the_code() -> None:
    stated = {}
    for name, _, _, limit in rows():
        if limit:
            found = re.fullmatch(r"(\d+) (\w+), then `(\w+)`", limit)
            assert found
            stated[name.strip("`")] = (float(found[1]) * UNITS[found[2]], found[3])
    assert stated == CYCLE_LIMITS
