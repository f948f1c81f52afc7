"""Plots of candidates' scores over what was spent: text for the terminal, and PNG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ratchet.learn import Proposal


def best_so_far(proposals: Sequence[Proposal]) -> list[float]:
    """Best value up to each candidate; candidates that were pruned early do not count."""
    best: list[float] = []
    for proposal in proposals:
        candidates = [] if proposal.pruned else [proposal.value]
        best.append(max([*best[-1:], *candidates], default=proposal.value))
    return best


def text_plot(
    proposals: Sequence[Proposal], metric: str, *, width: int = 70, color: bool = True
) -> str:
    """The plot as text: a dot for each candidate, a line for the best so far."""
    import plotille

    figure = plotille.Figure()
    figure.width, figure.height = width, 14
    figure.with_colors = color
    figure.x_label, figure.y_label = "rollouts", f"mean {metric}"
    numbers = [p.rollouts for p in proposals]
    values = [p.value for p in proposals]
    low, high = min(values), max(values)
    room = (high - low) * 0.05 or 0.01
    figure.set_x_limits(0, max(numbers) + 1)
    figure.set_y_limits(max(0.0, low - room), min(1.0, high + room) if high <= 1 else high + room)
    figure.x_ticks_fkt = lambda value, _: f"{value:.0f}"
    figure.y_ticks_fkt = lambda value, _: f"{value:.3f}"
    figure.scatter(numbers, values, lc="cyan", label="candidate")
    figure.plot(numbers, best_so_far(proposals), lc="green", label="best so far")
    return str(figure.show(legend=color))


def png_plot(
    proposals: Sequence[Proposal], metric: str, path: Path, *, baseline: float | None = None
) -> None:
    """Write the plot as a PNG: candidates, the best so far, and the baseline.

    One panel over rollouts, and one over dollars when any were spent.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    over: list[tuple[str, Callable[[Proposal], float]]] = [("rollouts spent", _rollouts)]
    if proposals[-1].dollars > 0:
        caveat = "at least; the price of some calls is unknown" if proposals[-1].unpriced else ""
        over.append((f"dollars spent ({caveat})" if caveat else "dollars spent", _dollars))
    figure: Any
    panels: Any
    figure, panels = pyplot.subplots(
        1, len(over), figsize=(8 * len(over), 5), dpi=150, squeeze=False, sharey=True
    )
    for axes, (label, spent) in zip(panels[0], over, strict=True):
        _panel(axes, proposals, spent, baseline)
        axes.set_xlabel(label)
    panels[0][0].set_ylabel(f"mean {metric}")
    panels[0][0].legend(
        frameon=False, fontsize=8, ncol=2, loc="upper center", bbox_to_anchor=(0.5, -0.14)
    )
    figure.suptitle("Score of candidates, train tasks")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    pyplot.close(figure)


def _panel(
    axes: Any,
    proposals: Sequence[Proposal],
    spent: Callable[[Proposal], float],
    baseline: float | None,
) -> None:
    for pruned, size, color, label in (
        (True, 14, "#b9c0c8", "stopped early (run on some tasks)"),
        (False, 20, "#3b7dd8", "run on all tasks"),
    ):
        some = [p for p in proposals if p.pruned is pruned]
        axes.scatter(
            [spent(p) for p in some], [p.value for p in some], s=size, color=color, label=label
        )
        if pruned or len(some) > 60:
            continue  # the intervals of hundreds of candidates would hide the points
        measured = [p for p in some if p.low is not None and p.high is not None]
        axes.vlines(
            [spent(p) for p in measured],
            [p.low for p in measured],
            [p.high for p in measured],
            color=color,
            alpha=0.25,
            linewidth=1,
        )
    axes.step(
        [spent(p) for p in proposals],
        best_so_far(proposals),
        where="post",
        color="#1c7c54",
        linewidth=2,
        label="best so far",
    )
    if baseline is not None:
        axes.axhline(baseline, color="#c2452d", linestyle="--", linewidth=1, label="baseline")
    axes.spines[["top", "right"]].set_visible(False)


def _rollouts(proposal: Proposal) -> float:
    return proposal.rollouts


def _dollars(proposal: Proposal) -> float:
    return proposal.dollars
