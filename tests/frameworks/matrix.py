"""The matrix of frameworks: which version, and what of its agent's run is there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tests.frameworks.running import Outcome
from tests.frameworks.tree import COLUMNS

_BEGIN, _END = "<!-- matrix -->", "<!-- end of the matrix -->"
_OURS = {"agent": "agent", "tool arguments": "tool", "tool result": "tool"}
"""Columns that our decorators fill in, by what is decorated."""


def markdown(outcomes: Sequence[Outcome]) -> str:
    """The matrix as a table."""
    columns = [*COLUMNS, "one trace"]
    lines = [
        f"| framework | version | captured by | {' | '.join(columns)} |",
        f"|---|---|---|{'---|' * len(columns)}",
    ]
    for outcome in outcomes:
        cells = [_cell(outcome, column) for column in columns]
        framework = outcome.framework
        lines.append(
            f"| {framework.title} | {outcome.version} | {framework.told_by} | {' | '.join(cells)} |"
        )
    return "\n".join(lines)


def _cell(outcome: Outcome, column: str) -> str:
    if outcome.failure:
        return "failed"
    if column in outcome.missing:
        return "no"
    ours = _OURS.get(column) in outcome.framework.decorated
    return "decorator" if ours and outcome.framework.shown else "yes"


def write_into(page: Path, outcomes: Sequence[Outcome]) -> None:
    """Put the matrix into a page, between its marks.

    Raises:
        ValueError: The page has no marks.
    """
    text = page.read_text()
    between = re.compile(f"({re.escape(_BEGIN)}\n).*({re.escape(_END)})", re.DOTALL)
    table = markdown(outcomes) + "\n"
    made, count = between.subn(lambda found: found[1] + table + found[2], text)
    if not count:
        raise ValueError(f"{page} has no {_BEGIN} and {_END} to put the matrix between.")
    page.write_text(made)
