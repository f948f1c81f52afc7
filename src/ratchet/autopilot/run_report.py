"""The report of a run as one self-contained HTML file without scripts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import log10
from pathlib import Path
from typing import Any

import msgspec

from ratchet._version import __version__
from ratchet.autopilot.cycle.explaining import explain_experiment
from ratchet.autopilot.run_front import RunFront, run_front
from ratchet.autopilot.run_outcome import RunOutcome, outcome_of
from ratchet.ship.word_changes import WordChange, folded, word_changes
from ratchet.store import Store
from ratchet.types import (
    Experiment,
    InputError,
    PromptTemplate,
    Resource,
    Run,
    kind_of,
    resource_text,
)
from ratchet.types.cost import rollout_dollars
from ratchet.types.wording import counted

WIDTH, HEIGHT = 720, 220
"""Size of a plot, in pixels."""

BEST = 15
"""Candidates in the table."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 16, 10, 28


class ResourceDifference(msgspec.Struct, frozen=True):
    """One resource before and after, as changes."""

    name: str
    kind: str
    changes: list[WordChange]


def run_report(store: Store, run: Run) -> str:
    """The report of a run as HTML.

    Args:
        store: The run's store.
        run: The run, under way or over.

    Raises:
        StoreError: The store cannot be read.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    outcome = outcome_of(store, run)
    experiment = store.experiments.get(run.experiment_id) if run.experiment_id else None
    environment = Environment(
        loader=PackageLoader("ratchet.autopilot", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    placed = run_front(store, run, outcome.metric)
    best = sorted(outcome.proposals, key=lambda proposal: proposal.value, reverse=True)[:BEST]
    return environment.get_template("run_report.html").render(
        version=__version__,
        run=run,
        outcome=outcome,
        decision=outcome.decision,
        explanation=explain_experiment(experiment) if experiment else [],
        best=best,
        scores=_score_plot(outcome),
        front=placed,
        rollout_dollars=rollout_dollars,
        front_plot=_front_plot(placed) if placed else None,
        evidence=_evidence_plot(experiment) if experiment else None,
        differences=_differences(store, run),
    )


def _differences(store: Store, run: Run) -> list[ResourceDifference]:
    if not run.baseline_id or not run.best_id or run.best_id == run.baseline_id:
        return []
    try:
        before = store.candidates.get(run.baseline_id).resources
        after = store.candidates.get(run.best_id).resources
    except InputError:  # pruned since
        return []
    return [
        ResourceDifference(name, kind_of(either), _changes(before.get(name), after.get(name)))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
        and (either := after.get(name) or before.get(name)) is not None
    ]


def _changes(before: Resource | None, after: Resource | None) -> list[WordChange]:
    changes = word_changes(resource_text(before), resource_text(after))
    # Of code and parameters, the lines around a change say where it is.
    is_prompt = isinstance(after or before, PromptTemplate)
    return folded(changes, 400 if is_prompt else 200)


class _Plot(msgspec.Struct, frozen=True):
    """What a plot draws, in pixels."""

    lines: list[tuple[str, str, str]]
    """Class, path and label."""
    dots: list[tuple[float, float, str, str]]
    """Place, class and title."""
    marks: Sequence[tuple[float, float, str, str]]
    """Texts: place, anchor and text."""
    grid: list[float]
    """Heights of horizontal lines."""
    threshold: float | None
    label: str


def _score_plot(outcome: RunOutcome) -> _Plot | None:
    if not outcome.proposals:
        return None
    most = max(proposal.rollouts for proposal in outcome.proposals) or 1
    high = max(1.0, *(proposal.value for proposal in outcome.proposals))

    def x(rollouts: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * rollouts / most

    def y(value: float) -> float:
        return HEIGHT - _BOTTOM - (HEIGHT - _BOTTOM - _TOP) * max(value, 0.0) / high

    dots = [
        (
            x(proposal.rollouts),
            y(proposal.value),
            "chosen" if proposal.candidate_id == outcome.run.best_id else "dot",
            f"{proposal.algorithm} {proposal.candidate_id[:8]}: {proposal.value:.3f}",
        )
        for proposal in outcome.proposals
    ]
    ticks = [high * part / 4 for part in range(5)]
    marks: list[tuple[float, float, str, str]] = [
        (_LEFT - 6, y(tick) + 4, "end", f"{tick:.2f}") for tick in ticks
    ]
    marks += [
        (x(most * part / 4), HEIGHT - 8, "middle", f"{most * part / 4:.0f}") for part in range(5)
    ]
    label = f"Score of {counted(len(dots), 'candidate')} over rollouts"
    return _Plot([], dots, marks, [y(tick) for tick in ticks], None, label)


def _front_plot(front: RunFront) -> _Plot | None:
    """Plot of quality over cost or latency, with letters for the front."""
    by_cost = front.over == "cost"
    places = [
        (place, burden)
        for place in front.places
        if place.is_known and (burden := place.cost_usd if by_cost else place.latency_s) is not None
    ]
    if len(places) < 2:
        return None
    most = max(burden for _, burden in places) or 1.0
    low = min(place.quality for place, _ in places)
    high = max(place.quality for place, _ in places)
    room = 0.05 * (high - low) or 0.05

    def x(burden: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * burden / most

    def y(quality: float) -> float:
        share = (quality - low + room) / (high - low + 2 * room)
        return HEIGHT - _BOTTOM - (HEIGHT - _BOTTOM - _TOP) * share

    dots, marks = [], []
    for place, burden in places:
        is_source = place.candidate_id == front.source_id
        name = "source" if is_source else place.candidate_id[:8]
        kind = "source" if is_source else "chosen" if place.on_front else "dot"
        dots.append((x(burden), y(place.quality), kind, f"{name}: {place.quality:.3f}"))
        label = name if is_source or place.is_shipped else place.letter
        anchor = "end" if burden > most / 2 else "start"
        aside = -8 if anchor == "end" else 8
        marks.append((x(burden) + aside, y(place.quality) - 6, anchor, label))
    for part in range(5):
        quality, burden = low + (high - low) * part / 4, most * part / 4
        marks.append((_LEFT - 6, y(quality) + 4, "end", f"{quality:.2f}"))
        marks.append((x(burden), HEIGHT - 8, "middle", f"{burden:.2g}"))
    grid = [y(low + (high - low) * part / 4) for part in range(5)]
    unit = "dollars" if by_cost else "seconds"
    label = f"{front.metric} of {counted(len(dots), 'candidate')} over {unit} of a rollout"
    return _Plot([], dots, marks, grid, None, label)


def _evidence_plot(experiment: Experiment) -> _Plot | None:
    rows = _rows(experiment.evidence_path)
    if not rows:
        return None
    threshold = 1.0 / experiment.alpha
    curves = [
        ("better", "better than the baseline", [row["superiority"] for row in rows]),
        ("worse", "worse than the baseline", [row["harm"] for row in rows]),
    ]
    low = log10(max(1e-6, min(0.1, *(min(values) for *_, values in curves))))
    high = log10(max(2 * threshold, *(max(values) for *_, values in curves)))

    def x(pair: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * pair / len(rows)

    def y(value: float) -> float:
        share = (log10(max(value, 1e-6)) - low) / (high - low)
        return HEIGHT - _BOTTOM - (HEIGHT - _BOTTOM - _TOP) * min(max(share, 0.0), 1.0)

    decades = [10.0**power for power in range(int(low), int(high) + 1)]
    marks: list[tuple[float, float, str, str]] = [
        (_LEFT - 6, y(decade) + 4, "end", f"{decade:g}") for decade in decades
    ]
    marks += [
        (x(len(rows) * part / 4), HEIGHT - 8, "middle", f"{len(rows) * part / 4:.0f}")
        for part in range(5)
    ]
    marks.append((_LEFT + 6, y(threshold) + 13, "start", f"1/alpha = {threshold:.3g}"))
    lines = [(name, _path(values, x, y), label) for name, label, values in curves]
    label = f"E-values over {counted(len(rows), 'pair')}"
    return _Plot(lines, [], marks, [y(decade) for decade in decades], y(threshold), label)


def _path(values: Sequence[float], x: Any, y: Any) -> str:
    points = [f"{x(at):.1f},{y(value):.1f}" for at, value in enumerate([1.0, *values])]
    return "M" + "L".join(points)


def _rows(path: str) -> list[dict[str, float]]:
    """The e-values after each pair; empty if the evidence is missing or has no pairs."""
    try:
        evidence = json.loads(Path(path).read_bytes()) if path else {}
        return [row["e_values"] for row in evidence.get("pairs", ())]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
