"""The front of a run in the terminal: a plot of quality over cost, and a table with latency too."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.markup import escape
from rich.table import Table

from ratchet.autopilot.run_front import CandidatePlace, RunFront
from ratchet.cli.console import format_duration, number, short, table
from ratchet.types.cost import rollout_dollars
from ratchet.types.interval_text import interval_ends
from ratchet.types.wording import counted

HEIGHT = 14
"""Rows of the plot."""

MAX_LINE_WIDTH = 100
"""Maximum length of a line in characters, however wide the terminal is."""

SOURCE_MARK, SHIPPED_MARK, BEHIND_MARK = "◆", "★", "·"
"""Marks of the source, of what was shipped, and of candidates behind the front."""


def marks(front: RunFront) -> dict[str, str]:
    """Mark of each candidate that has a place, by id; candidates on the front have letters."""
    return {
        place.candidate_id: SOURCE_MARK
        if place.candidate_id == front.source_id
        else SHIPPED_MARK
        if place.is_shipped
        else place.letter or BEHIND_MARK
        for place in front.places
        if place.is_known
    }


def front_plot(front: RunFront, width: int) -> str:
    """Quality over cost as text; over latency where no two costs are known to differ.

    Args:
        front: The front of a run.
        width: Characters of a line.
    """
    known = [place for place in front.places if place.is_known]
    if front.over == "cost":
        return _scatter(front, known, "cost per rollout", _cost, rollout_dollars, width)
    return _scatter(front, known, "seconds per rollout", _latency, format_duration, width)


def front_table(front: RunFront) -> Table:
    """The candidates that have a place, those on the front first."""
    rows = table(
        "", "candidate", front.metric, "gain", "cost", "latency", "tasks", "",
        right=(front.metric, "cost", "latency", "tasks"),
    )  # fmt: skip
    marked = marks(front)
    placed = sorted(
        (place for place in front.places if place.is_known),
        key=lambda place: (place.candidate_id != front.source_id, not place.on_front),
    )
    for place in placed:
        is_source = place.candidate_id == front.source_id
        rows.add_row(
            marked[place.candidate_id],
            "source" if is_source else short(place.candidate_id),
            number(place.quality),
            "" if is_source else escape(_gain(place, front.source)),
            _cost_text(place, front.source),
            _latency_text(place, front.source),
            str(place.tasks),
            ", ".join(_standing(place)),
        )
    return rows


def left_out(front: RunFront) -> str:
    """Sentence on the candidates without a place; empty if there are none."""
    few = sum(not place.is_known for place in front.places)
    return f"{counted(few, 'candidate')} ran fewer than half of the tasks." if few else ""


def _scatter(
    front: RunFront,
    known: Sequence[CandidatePlace],
    label: str,
    measure: Callable[[CandidatePlace], float | None],
    shown: Callable[[float], str],
    width: int,
) -> str:
    drawn = [(place, x) for place in known if (x := measure(place)) is not None]
    if not drawn:
        return "Neither cost nor latency is known."
    low_x, high_x = _limits([x for _, x in drawn])
    low_y, high_y = _limits([place.quality for place, _ in drawn])
    if max(place.quality for place, _ in drawn) <= 1.0:
        high_y = min(1.0, high_y)
    margin = 8
    columns = max(20, min(width, MAX_LINE_WIDTH) - margin - 2)
    canvas = [[" "] * columns for _ in range(HEIGHT)]
    marked = marks(front)
    # What matters most is drawn last, over what stands in the same cell.
    order = {BEHIND_MARK: 0, SOURCE_MARK: 2, SHIPPED_MARK: 3}
    for place, x in sorted(drawn, key=lambda pair: order.get(marked[pair[0].candidate_id], 1)):
        column = round((x - low_x) / (high_x - low_x) * (columns - 1))
        row = round((high_y - place.quality) / (high_y - low_y) * (HEIGHT - 1))
        canvas[row][column] = marked[place.candidate_id]
    lines = [front.metric]
    for row, cells in enumerate(canvas):
        value = high_y - (high_y - low_y) * row / (HEIGHT - 1)
        tick = f"{value:.3f}" if row % 3 == 0 or row == HEIGHT - 1 else ""
        lines.append(f"{tick:>{margin - 1}} │{''.join(cells).rstrip()}")
    lines.append(f"{'':>{margin}}└{'─' * columns}")
    left, right = shown(max(0.0, low_x)), shown(high_x)
    middle = label.center(max(len(label), columns - len(left) - len(right)))
    lines.append(f"{'':>{margin + 1}}{left}{middle}{right}")
    legend = (
        f"{SOURCE_MARK} source  {SHIPPED_MARK} shipped  a, b, … on the front"
        f"  {BEHIND_MARK} behind it"
    )
    lines.append(f"{'':>{margin + 1}}{legend}")
    unknown = len(known) - len(drawn)
    if unknown:
        what = label.split()[0]
        lines.append(f"{'':>{margin + 1}}{what} unknown: {counted(unknown, 'candidate')}, below")
    return "\n".join(lines)


def _limits(values: Sequence[float]) -> tuple[float, float]:
    """Ends of an axis that holds these values, with some margin."""
    low, high = min(values), max(values)
    room = 0.05 * (high - low) or 0.05 * abs(high) or 0.05
    return low - room, high + room


def _cost(place: CandidatePlace) -> float | None:
    return place.cost_usd


def _latency(place: CandidatePlace) -> float | None:
    return place.latency_s


def _gain(place: CandidatePlace, source: CandidatePlace) -> str:
    gain = f"{place.quality - source.quality:+.3f}"
    if place.low is None or place.high is None:
        return gain
    low, high = interval_ends(place.low, place.high)
    return f"{gain} [{low}, {high}]"


def _cost_text(place: CandidatePlace, source: CandidatePlace) -> str:
    if place.cost_usd is None:
        return "unknown"
    return rollout_dollars(place.cost_usd) + _change(place.cost_usd, source.cost_usd)


def _latency_text(place: CandidatePlace, source: CandidatePlace) -> str:
    if place.latency_s is None:
        return "unknown"
    return format_duration(place.latency_s) + _change(place.latency_s, source.latency_s)


def _change(value: float, source: float | None) -> str:
    """The change from the source in percent; empty where there is none."""
    percent = round(100.0 * (value / source - 1.0)) if source else 0
    return f" ({percent:+d} %)" if percent else ""


def _standing(place: CandidatePlace) -> list[str]:
    standing = ["on the front"] if place.on_front else []
    if place.is_shipped:
        standing.append("shipped")
    elif place.verdict is not None:
        standing.append(f"its proof: {place.verdict.replace('_', ' ')}")
    return standing
