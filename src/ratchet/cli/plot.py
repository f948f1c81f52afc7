"""The score over trials, in the terminal and as a PNG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ratchet.learn import Proposal


def best_so_far(proposals: Sequence[Proposal]) -> list[float]:
    """Best value over all train tasks after each trial."""
    best: list[float] = []
    for proposal in proposals:
        candidates = [] if proposal.pruned else [proposal.value]
        best.append(max([*best[-1:], *candidates], default=proposal.value))
    return best


def text_plot(
    proposals: Sequence[Proposal], metric: str, *, width: int = 70, color: bool = True
) -> str:
    """The plot as lines of text: a dot for each trial, a line for the best so far."""
    import plotille

    figure = plotille.Figure()
    figure.width, figure.height = width, 14
    figure.with_colors = color
    figure.x_label, figure.y_label = "trial", f"mean {metric}"
    numbers = [p.number + 1 for p in proposals]
    values = [p.value for p in proposals]
    low, high = min(values), max(values)
    room = (high - low) * 0.05 or 0.01
    figure.set_x_limits(0, max(numbers) + 1)
    figure.set_y_limits(max(0.0, low - room), min(1.0, high + room) if high <= 1 else high + room)
    figure.x_ticks_fkt = lambda value, _: f"{value:.0f}"
    figure.y_ticks_fkt = lambda value, _: f"{value:.3f}"
    figure.scatter(numbers, values, lc="cyan", label="trial")
    figure.plot(numbers, best_so_far(proposals), lc="green", label="best on all train tasks")
    return str(figure.show(legend=color))


def png_plot(
    proposals: Sequence[Proposal], metric: str, path: Path, *, baseline: float | None = None
) -> None:
    """Write the plot as a PNG: trials by how far they came, the best so far, the baseline."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure: Any
    axes: Any
    figure, axes = pyplot.subplots(figsize=(8, 5), dpi=150)
    full = [p for p in proposals if not p.pruned]
    given_up = [p for p in proposals if p.pruned]
    axes.scatter(
        [p.number + 1 for p in given_up],
        [p.value for p in given_up],
        s=14,
        color="#b9c0c8",
        label="trial given up early (a subset of the tasks)",
    )
    axes.scatter(
        [p.number + 1 for p in full],
        [p.value for p in full],
        s=20,
        color="#3b7dd8",
        label="trial on all train tasks",
    )
    axes.step(
        [p.number + 1 for p in proposals],
        best_so_far(proposals),
        where="post",
        color="#1c7c54",
        linewidth=2,
        label="best so far",
    )
    if baseline is not None:
        axes.axhline(baseline, color="#c2452d", linestyle="--", linewidth=1, label="baseline")
    axes.set_xlabel("trial")
    axes.set_ylabel(f"mean {metric}")
    axes.set_title("Score over trials, train tasks")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, ncol=2, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    pyplot.close(figure)
