"""The reliability diagram: how often people judge outputs with about the same score to be right."""

from __future__ import annotations

import io
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from ratchet.types import CardCheck, InputError, ReportCard

_POINT = "calibration at "


def curve_of(card: ReportCard) -> list[tuple[float, CardCheck]]:
    """Points of a card's calibration curve: mean score, and share of right outputs."""
    return [
        (float(check.name.removeprefix(_POINT)), check)
        for check in card.checks
        if check.name.startswith(_POINT)
    ]


def plot_reliability(cards: Sequence[ReportCard], path: Path) -> None:
    """Write the reliability diagrams of report cards, one panel each.

    Args:
        cards: The cards; those without labels are left out.
        path: A .png file, or an .html file with the diagrams and the checks.

    Raises:
        InputError: No card has labels, or the file has another ending.
    """
    if path.suffix not in (".png", ".html"):
        raise InputError(f"The plot {path} is neither a .png nor an .html file.")
    with_curve = [card for card in cards if curve_of(card)]
    if not with_curve:
        raise InputError("A reliability diagram needs labels.", hint="Label outputs: ratchet label")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".png":
        path.write_bytes(_drawn(with_curve, "png"))
    else:
        svg = _drawn(with_curve, "svg").decode()
        path.write_text(_page(with_curve, svg[svg.index("<svg") :]), encoding="utf-8")


def _drawn(cards: Sequence[ReportCard], form: str) -> bytes:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure: Any
    panels: Any
    figure, panels = pyplot.subplots(
        1, len(cards), figsize=(4.5 * len(cards), 4.8), dpi=150, squeeze=False, sharey=True
    )
    for axes, card in zip(panels[0], cards, strict=True):
        points = curve_of(card)
        axes.plot([0, 1], [0, 1], color="#b9c0c8", linestyle="--", linewidth=1)
        axes.errorbar(
            [score for score, _ in points],
            [check.value for _, check in points],
            # Wilson's interval of 0 or 1 ends there; rounding must not make a length negative.
            yerr=[
                [max(0.0, (c.value or 0.0) - (c.low or 0.0)) for _, c in points],
                [max(0.0, (c.high or 0.0) - (c.value or 0.0)) for _, c in points],
            ],
            fmt="o-",
            color="#3b7dd8",
            capsize=3,
            linewidth=1,
        )
        for score, check in points:
            axes.annotate(
                f"{check.n}", (score, check.value), textcoords="offset points", xytext=(6, 6)
            )
        axes.set_xlim(-0.05, 1.05)
        axes.set_ylim(-0.05, 1.05)
        axes.set_xlabel("score")
        axes.set_title(f"{card.evaluator}: {card.verdict}", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0][0].set_ylabel("share that people call right, with 95 % interval")
    figure.tight_layout()
    buffer = io.BytesIO()
    figure.savefig(buffer, format=form)
    pyplot.close(figure)
    return buffer.getvalue()


def _page(cards: Sequence[ReportCard], svg: str) -> str:
    tables = "".join(
        f"<h2>{escape(card.evaluator)}: {card.verdict}</h2>"
        f"<p>{escape(' '.join(card.reasons))}</p>"
        "<table><tr><th>check</th><th>value</th><th>95 %</th><th>n</th><th>alone</th><th></th>"
        f"</tr>{''.join(map(_row, card.checks))}</table>"
        for card in cards
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Report cards</title>'
        "<style>body{font:14px sans-serif;margin:2em;max-width:70em}"
        "td,th{padding:.2em .8em .2em 0;text-align:left}svg{max-width:100%;height:auto}</style>"
        f"</head><body><h1>Report cards</h1>{svg}{tables}</body></html>\n"
    )


def _row(check: CardCheck) -> str:
    value = "" if check.value is None else f"{check.value:.3f}"
    ends = "" if check.low is None or check.high is None else f"{check.low:.2f} to {check.high:.2f}"
    cells = (check.name, value, ends, str(check.n), check.verdict, check.detail)
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
