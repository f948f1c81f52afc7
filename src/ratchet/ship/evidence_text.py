"""Parts of an evidence file for a pull request: tasks that failed before, and the e-value's path.

Tasks and rollouts are named, never quoted: a pull request has more readers than a store.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from ratchet.types import ShipError

_TASKS = 3
_POINTS = 48


def read_evidence(path: Path) -> dict[str, Any]:
    """An evidence file's content.

    Raises:
        ShipError: It cannot be read, or is not JSON.
    """
    try:
        evidence = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise ShipError(f"The evidence file {path} cannot be read: {error.strerror}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        evidence = None
    if not isinstance(evidence, dict):
        raise ShipError(
            f"The evidence file {path} is not the JSON that an experiment writes.",
            hint="Run the experiment again.",
        )
    return evidence


class ImprovedTask(NamedTuple):
    """A task with a lower baseline score; ids are Markdown, and links if there is a server."""

    task: str
    before: str
    after: str
    rollouts: tuple[str, str]
    """The rollouts before and after; the first of each if the task ran several times."""
    trace: str
    """The live trace that the task was captured from; empty for other tasks."""


def improved_tasks(
    evidence: dict[str, Any], server_url: str = "", traces: Mapping[str, str] | None = None
) -> list[ImprovedTask]:
    """The tasks that gained most.

    Args:
        evidence: Content of the evidence file.
        server_url: Address of a server that has the rollouts and traces, for links to them.
        traces: The live trace that a task was captured from, by the task's id.
    """
    traces = traces or {}
    rows = [
        (row["candidate"] - row["baseline"], row)
        for row in evidence.get("pairs", ())
        if row["baseline"] is not None and row["candidate"] is not None
    ]
    rows = sorted((row for row in rows if row[0] > 0), key=lambda row: (-row[0], row[1]["pair"]))
    return [
        ImprovedTask(
            task=str(row["task"]),
            before=f"{row['baseline']:.4g}",
            after=f"{row['candidate']:.4g}",
            rollouts=_rollouts(row, server_url),
            trace=_link("traces", traces.get(str(row["task"]), ""), server_url),
        )
        for _, row in rows[:_TASKS]
    ]


def e_value_plot(evidence: dict[str, Any]) -> str:
    """The e-value after each pair, as a Mermaid chart; empty when there are fewer than two pairs.

    Its axis is logarithmic: evidence multiplies. The second line is what the decision needs.
    """
    path = [row["e_values"]["superiority"] for row in evidence.get("pairs", ())]
    if len(path) < 2:
        return ""
    count = min(_POINTS, len(path))
    picked = [round(i * (len(path) - 1) / (count - 1)) for i in range(count)]
    logs = [round(math.log10(max(path[i], 1e-12)), 3) for i in picked]
    needed = round(-math.log10(evidence["plan"]["alpha"]), 3)
    low, high = math.floor(min(0.0, *logs)), math.ceil(max(needed, *logs) + 0.01)
    return "\n".join(
        [
            "xychart-beta",
            '    title "e-value after each pair, and the e-value needed"',
            f'    x-axis "pairs" 1 --> {len(path)}',
            f'    y-axis "e-value, as a power of ten" {low} --> {high}',
            f"    line [{', '.join(f'{value:g}' for value in logs)}]",
            f"    line [{', '.join([f'{needed:g}'] * count)}]",
        ]
    )


def _rollouts(row: dict[str, Any], server_url: str) -> tuple[str, str]:
    first = row["repetitions"][0] if row.get("repetitions") else row
    before, after = first["rollouts"]
    return _link("rollouts", before, server_url), _link("rollouts", after, server_url)


def _link(noun: str, identity: str, server_url: str) -> str:
    if not identity:
        return ""
    label = f"`{identity[:12]}`"
    if not server_url:
        return label
    return f"[{label}]({server_url.rstrip('/')}/v1/{noun}/{quote(identity, safe='')})"
