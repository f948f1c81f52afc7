"""Plots a dataset's tasks by difficulty and discrimination: PNG, and HTML that names the tasks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ratchet.types.wording import counted

if TYPE_CHECKING:
    from ratchet.curate.refinement import Refinement
    from ratchet.curate.refinement.proposals import TaskEstimate

WIDTH, HEIGHT, MARGIN = 860, 560, 60

SORTS = (
    ("usual", "#3b7dd8"),
    ("label probably wrong", "#c2452d"),
    ("core set", "#1c7c54"),
)


def png_plot(refinement: Refinement, path: Path) -> None:
    """Write the plot as a PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure: Any
    axes: Any
    figure, axes = pyplot.subplots(figsize=(9, 6), dpi=150)
    for (label, color), some in zip(SORTS, _sorted(refinement), strict=True):
        x, y = [task.difficulty for task in some], [task.discrimination for task in some]
        axes.scatter(x, y, s=16, color=color, alpha=0.7, label=f"{label} ({len(some)})")
    axes.set_xlabel("difficulty (standard deviations of the candidates' ability)")
    axes.set_ylabel("discrimination")
    axes.set_title(
        f"Tasks of {refinement.name}, by {counted(refinement.candidates, 'candidate')}".replace(
            "$", r"\$"
        )
    )
    axes.legend(frameon=False, fontsize=8, ncol=3, loc="upper center", bbox_to_anchor=(0.5, -0.12))
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    pyplot.close(figure)


def html_plot(refinement: Refinement, path: Path) -> None:
    """Write the plot as an HTML page, on which each point shows its task on hover."""
    points = refinement.estimates
    x = _scale([task.difficulty for task in points], MARGIN, WIDTH - MARGIN)
    y = _scale([0.0, *(task.discrimination for task in points)], HEIGHT - MARGIN, MARGIN)
    dots, legend = [], []
    for number, ((label, color), some) in enumerate(zip(SORTS, _sorted(refinement), strict=True)):
        legend.append(
            f'<text x="{MARGIN + 10 + 240 * number}" y="24" fill="{color}">● {label}'
            f" ({len(some)})</text>"
        )
        for task in some:
            title = (
                f"{task.task}\nmean score {task.mean:.2f}\ndifficulty {task.difficulty:.2f}"
                f"\ndiscrimination {task.discrimination:.2f}\nlabel wrong: {task.wrong:.2f}"
            )
            dots.append(
                f'<circle cx="{x(task.difficulty):.1f}" cy="{y(task.discrimination):.1f}" r="4"'
                f' fill="{color}" fill-opacity="0.7"><title>{escape(title)}</title></circle>'
            )
    name = escape(f"Tasks of {refinement.name}, by {counted(refinement.candidates, 'candidate')}")
    page = f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{name}</title>
<style>body {{ font: 14px sans-serif; margin: 2em }} svg {{ max-width: 100% }}</style>
<h1>{name}</h1>
<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img" aria-label="{name}">
<path d="M{MARGIN} {MARGIN - 20}V{HEIGHT - MARGIN}H{WIDTH - MARGIN}" fill="none" stroke="#888"/>
<text x="{WIDTH / 2}" y="{HEIGHT - 20}" text-anchor="middle">difficulty (standard deviations of
the candidates' ability)</text>
<text transform="translate(24 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">discrimination</text>
{"".join(legend)}
{"".join(dots)}
</svg></html>
"""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def _sorted(refinement: Refinement) -> list[list[TaskEstimate]]:
    """The tasks, grouped by the kinds above."""
    of: dict[str, set[str]] = {"wrong label": set(), "core set": set()}
    for proposal in refinement.proposals:
        of.get(proposal.ground, set()).update(proposal.tasks)
    sorts: list[list[TaskEstimate]] = [[], [], []]
    for task in refinement.estimates:
        at = 1 if task.task in of["wrong label"] else 2 if task.task in of["core set"] else 0
        sorts[at].append(task)
    return sorts


def _scale(values: Sequence[float], begin: float, end: float) -> Any:
    low, high = min(values), max(values)
    return lambda value: begin + (value - low) / ((high - low) or 1.0) * (end - begin)
