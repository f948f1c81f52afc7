"""Plots a dataset against live traffic: a map of the kinds of inputs, as PNG or HTML."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ratchet.cli.console import one_line
from ratchet.types import InputError
from ratchet.types.wording import counted

if TYPE_CHECKING:
    from ratchet.curate.refinement.coverage import Coverage, CoveredCluster

WIDTH, HEIGHT, MARGIN = 860, 560, 110

LIVE_COLOR, GAP_COLOR, TASKS_COLOR = "#3b7dd8", "#c2452d", "#1c7c54"

LABEL = (170.0, 14.0)
"""Two labels must be this many pixels apart: horizontally, or else vertically."""

RADIUS = 120.0
"""Pixels of a circle for all inputs; a circle's area is its share."""


def plot_coverage(coverage: Coverage, name: str, path: Path) -> None:
    """Write the map: clusters near each other have words in common; a circle's area is a share.

    Args:
        coverage: The coverage.
        name: Name of the dataset.
        path: A .png file, or an .html file that shows examples when the pointer is on a cluster.

    Raises:
        InputError: The file has another ending.
    """
    if path.suffix not in (".png", ".html"):
        raise InputError(f"The plot {path} is neither a .png nor an .html file.")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".png":
        _png(coverage, name, path)
    else:
        path.write_text(_page(coverage, name), encoding="utf-8")


def _title(coverage: Coverage, name: str) -> str:
    inputs = counted(coverage.inputs, "live input")
    return f"{name} beside {inputs}: distance {coverage.distance:.2f} of 1"


def _places(clusters: Sequence[CoveredCluster]) -> list[tuple[float, float]]:
    """Pixels of the clusters, from the lower left."""
    sides = []
    for axis, length in ((0, WIDTH), (1, HEIGHT)):
        values = [cluster.place[axis] for cluster in clusters]
        low, wide = min(values), (max(values) - min(values)) or 1.0
        sides.append([MARGIN + (v - low) / wide * (length - 2 * MARGIN) for v in values])
    return list(zip(*sides, strict=True))


def _shares(coverage: Coverage) -> list[tuple[float, float]]:
    """Radius of the traffic's and of the tasks' circle of each cluster."""
    tasks = max(1, sum(cluster.tasks for cluster in coverage.clusters))
    return [
        (RADIUS * math.sqrt(cluster.live), RADIUS * math.sqrt(cluster.tasks / tasks))
        for cluster in coverage.clusters
    ]


def _labels(coverage: Coverage, places: Sequence[tuple[float, float]]) -> list[str]:
    """The clusters' words; empty where those of a more frequent cluster are in the way."""
    labels: list[str] = []
    for number, (cluster, (x, y)) in enumerate(zip(coverage.clusters, places, strict=True)):
        covered = any(
            abs(x - other_x) < LABEL[0] and abs(y - other_y) < LABEL[1]
            for label, (other_x, other_y) in zip(labels, places[:number], strict=True)
            if label
        )
        labels.append("" if covered else " ".join(cluster.words))
    return labels


def _png(coverage: Coverage, name: str, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.patches import Circle

    figure: Any
    axes: Any
    figure, axes = pyplot.subplots(figsize=(WIDTH / 100, HEIGHT / 100), dpi=150)
    places, shares = _places(coverage.clusters), _shares(coverage)
    bubbles = zip(coverage.clusters, places, shares, _labels(coverage, places), strict=True)
    for cluster, place, (live, tasks), label in bubbles:
        color = GAP_COLOR if cluster.gap else LIVE_COLOR
        axes.add_patch(Circle(place, live, color=color, alpha=0.35, linewidth=0))
        axes.add_patch(Circle(place, tasks, fill=False, edgecolor=TASKS_COLOR, linewidth=1.5))
        axes.annotate(label.replace("$", r"\$"), place, ha="center", va="center", fontsize=7)
    for color, label in (
        (LIVE_COLOR, "live traffic"),
        (GAP_COLOR, "too few tasks"),
        (TASKS_COLOR, "tasks"),
    ):
        axes.plot([], [], "o", color=color, label=label)
    axes.legend(frameon=False, fontsize=8, ncol=3, loc="upper center", bbox_to_anchor=(0.5, 0.0))
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(0, HEIGHT)
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_title(_title(coverage, name).replace("$", r"\$"), fontsize=10)
    figure.savefig(path)
    pyplot.close(figure)


def _page(coverage: Coverage, name: str) -> str:
    marks = []
    places, shares = _places(coverage.clusters), _shares(coverage)
    bubbles = zip(coverage.clusters, places, shares, _labels(coverage, places), strict=True)
    for cluster, (x, up), (live, tasks), label in bubbles:
        y = HEIGHT - up
        examples = "".join(f"\n– {one_line(example, 200)}" for example in cluster.examples)
        color = GAP_COLOR if cluster.gap else LIVE_COLOR
        size = f"{cluster.live:.1%} of the traffic, {counted(cluster.tasks, 'task')}"
        tooltip = f"{' '.join(cluster.words)}\n{size}{examples}"
        marks.append(
            f"<g><title>{escape(tooltip)}</title>"
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{live:.1f}" fill="{color}"'
            ' fill-opacity="0.35"/>'
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{tasks:.1f}" fill="none" stroke="{TASKS_COLOR}"'
            ' stroke-width="2"/>'
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{escape(label)}</text></g>'
        )
    legend = "".join(
        f'<text x="{20 + 170 * number}" y="24" fill="{color}">● {label}</text>'
        for number, (color, label) in enumerate(
            ((LIVE_COLOR, "live traffic"), (GAP_COLOR, "too few tasks"), (TASKS_COLOR, "tasks"))
        )
    )
    title = escape(_title(coverage, name))
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>body {{ font: 14px sans-serif; margin: 2em }} svg {{ max-width: 100% }}
g text {{ font-size: 11px }}</style>
<h1>{title}</h1>
<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img" aria-label="{title}">
{legend}
{"".join(marks)}
</svg></html>
"""
