"""Training runs on this machine: their curves."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from ratchet.autopilot.trainable import RUNS
from ratchet.observe.project_paths import STATE_NAME
from ratchet.server.http_problems import HttpProblem
from ratchet.server.routes import READ, RouteGroup
from ratchet.server.services import Services
from ratchet.weights.metrics import read_metrics

group = RouteGroup("training")

MAX_POINTS = 2_000
"""Maximum number of steps in one answer; of a longer run, every n-th step is sent."""


class TrainingSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A training run."""

    name: str
    steps: int
    """Steps recorded so far."""
    updated_at: float
    """Unix seconds."""
    last: dict[str, float]
    """The last value of each metric."""


class TrainingRuns(msgspec.Struct, frozen=True):
    """Training runs of the project on this machine, last changed first."""

    runs: list[TrainingSummary]


class TrainingStep(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics of a step. Step 0 is the initial weights."""

    step: int
    metrics: dict[str, float]
    """By name; `val` is the result on val tasks."""
    val_low: float | None = None
    val_high: float | None = None
    """Bounds of the interval of `val` with 95 % coverage."""
    val_count: int = 0
    """Tasks or examples that `val` is the mean over."""
    val_candidate: str = ""
    """The candidate of the weights after the step, if it made rollouts of val tasks."""
    purpose: str = ""
    """Of the rollouts that the step learned from; empty where they are not kept."""


class TrainingCurves(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics of a training run by step."""

    name: str
    run_id: str
    """The run of `ratchet improve` that it is a part of; empty if the store has none."""
    steps: int
    every: int
    """Every n-th step is included, and each compared on val; 1 for all steps."""
    records: list[TrainingStep]


@group.route("GET", "/v1/training-runs", READ)
async def list_training_runs(server: Services) -> TrainingRuns:
    """List the training runs of the project that the server was started in."""
    return TrainingRuns(await server.in_thread(_runs, server))


@group.route("GET", "/v1/training-runs/{name}", READ)
async def get_training_run(server: Services, name: str) -> TrainingCurves:
    """Get the curves of a training run."""
    return await server.in_thread(_curves, server, name)


def _folders(server: Services) -> list[Path]:
    runs = server.project / STATE_NAME / RUNS if server.project else None
    if runs is None or not runs.is_dir():
        return []
    return [path for path in runs.iterdir() if path.is_dir()]


def _runs(server: Services) -> list[TrainingSummary]:
    summaries = []
    for folder in _folders(server):
        steps = training_steps(read_metrics(folder))
        summaries.append(
            TrainingSummary(
                name=folder.name,
                steps=steps[-1].step if steps else 0,
                updated_at=folder.stat().st_mtime,
                last={name: value for step in steps for name, value in step.metrics.items()},
            )
        )
    return sorted(summaries, key=lambda run: run.updated_at, reverse=True)


def _curves(server: Services, name: str) -> TrainingCurves:
    folder = next((path for path in _folders(server) if path.name == name), None)
    if folder is None:
        raise HttpProblem(
            404, f"There is no training run {name[:200]!r} on this machine.", field="name"
        )
    steps = training_steps(read_metrics(folder))
    run = server.store.runs.get(name.partition("-")[0])
    every = max(1, -(-len(steps) // MAX_POINTS))
    return TrainingCurves(
        name=name,
        run_id=run.id if run else "",
        steps=steps[-1].step if steps else 0,
        every=every,
        records=[s for n, s in enumerate(steps) if n % every == 0 or "val" in s.metrics],
    )


def training_steps(records: Iterable[dict[str, Any]]) -> list[TrainingStep]:
    """The steps of a training run, each from its records: of the step and of a comparison."""
    steps: dict[int, TrainingStep] = {}
    for record in records:
        number = record.get("step")
        if not isinstance(number, int):
            continue
        step = steps.get(number) or TrainingStep(step=number, metrics={})
        numbers = {
            name: float(value)
            for name, value in record.items()
            if type(value) in (int, float) and name != "step" and math.isfinite(value)
        }
        val = record.get("val")
        if isinstance(val, dict):
            numbers["val"] = val["value"]
            step = msgspec.structs.replace(
                step,
                val_low=val["low"],
                val_high=val["high"],
                val_count=val["count"],
                val_candidate=val.get("candidate", ""),
            )
        steps[number] = msgspec.structs.replace(
            step,
            metrics=step.metrics | numbers,
            purpose=record.get("purpose") or step.purpose,
        )
    return [steps[number] for number in sorted(steps)]
