"""The guardrails of a project: metrics that a candidate may worsen by no more than a margin."""

from __future__ import annotations

from collections.abc import Sequence

from ratchet.autopilot.config import Config
from ratchet.evaluate import Evaluator
from ratchet.prove import Guardrail
from ratchet.types import ConfigError

LATENCY_FLOOR_S = 0.1
"""Delays below this seem instantaneous (Miller 1968; Nielsen 1993). A process, a sandbox
or a busy machine may add as much to a fast agent."""

UNITS = {"latency": "s", "cost": "USD", "errors": ""}


def guardrails_of(config: Config, evaluators: Sequence[Evaluator]) -> tuple[Guardrail, ...]:
    """The configured guardrails, and the default ones of other metrics.

    Raises:
        ConfigError: One names an unknown metric.
    """
    unnamed: tuple[Guardrail, ...] = (
        Guardrail("errors", 0.1),
        Guardrail("latency", 0.5, unit="s", aggregate="relative", floor=LATENCY_FLOOR_S),
        Guardrail("cost", 0.25, unit="USD", aggregate="relative"),
    )
    units = {**UNITS, **{evaluator.name: evaluator.unit for evaluator in evaluators}}
    saved = config.objective.minimise
    staying = _staying(config, evaluators)
    unnamed = tuple(
        guardrail
        for guardrail in unnamed
        if guardrail.metric not in {saved, *(guardrail.metric for guardrail in staying)}
    )
    if saved is not None:
        # What is to fall has to be proved lower: its margin is 0.
        falls = Guardrail(saved, 0.0, unit=units[saved], aggregate="relative")
        unnamed = (*unnamed, falls, *staying)
    metrics = {section.metric for section in config.guardrails}
    guardrails = [guardrail for guardrail in unnamed if guardrail.metric not in metrics]
    for section in config.guardrails:
        if section.metric not in units:
            raise ConfigError(
                f"Guardrail {section.metric!r} names no metric; there are {sorted(units)}."
            )
        if section.off:
            continue
        if section.metric in {guardrail.metric for guardrail in guardrails}:
            raise ConfigError(f"Two guardrails are set for {section.metric!r}; keep one.")
        unit = units[section.metric]
        lower_is_better = bool(unit) or section.metric == "errors"
        if section.relative_margin is not None:
            guardrails.append(
                Guardrail(
                    section.metric,
                    section.relative_margin,
                    unit=unit,
                    lower_is_better=lower_is_better,
                    aggregate="relative",
                )
            )
        else:
            margin = section.margin or 0.0
            # A pair's difference is capped at a few margins: the proof stays short, and one
            # slow call cannot decide it.
            scale = section.scale or (4 * margin if unit and margin else 1.0)
            guardrails.append(
                Guardrail(
                    section.metric,
                    margin,
                    scale=scale,
                    unit=unit,
                    lower_is_better=lower_is_better,
                )
            )
    return tuple(guardrails)


def _staying(config: Config, evaluators: Sequence[Evaluator]) -> tuple[Guardrail, ...]:
    """Guardrails of `subject_to`, besides the score that has a margin of its own.

    Raises:
        ConfigError: One names a metric that no evaluator measures, or in a unit.
    """
    objective = config.objective
    units = {**UNITS, **{evaluator.name: evaluator.unit for evaluator in evaluators}}
    entries = [entry for entry in objective.subject_to if entry.metric != objective.score]
    for entry in entries:
        if entry.metric not in units:
            raise ConfigError(
                f"subject_to names the metric {entry.metric!r}; there are {sorted(units)}."
            )
    return tuple(
        Guardrail(
            entry.metric,
            entry.margin,
            unit=units[entry.metric],
            lower_is_better=bool(units[entry.metric]) or entry.metric == "errors",
            aggregate="relative" if units[entry.metric] else "mean",
        )
        for entry in entries
    )


def unchosen_margins(config: Config, guardrails: Sequence[Guardrail]) -> frozenset[str]:
    """The metrics of guardrails whose margin the configuration does not name."""
    objective = config.objective
    chosen = {section.metric for section in config.guardrails}
    chosen |= {entry.metric for entry in objective.subject_to} | {objective.minimise or ""}
    return frozenset(guardrail.metric for guardrail in guardrails) - chosen
