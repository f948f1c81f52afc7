"""Trainings of weights on this machine: their curves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ratchet.autopilot.trainable import RUNS
from ratchet.observe.project_paths import STATE_NAME
from ratchet.server.problems import Problem
from ratchet.server.routes import READ, RouteGroup
from ratchet.server.services import Services
from ratchet.weights.metrics import read_metrics

group = RouteGroup("training")

POINTS = 2_000
"""Most steps in one answer; of a longer training every n-th step is sent."""


class TrainingSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A training."""

    name: str
    steps: int
    """Steps recorded so far."""
    updated_at: float
    """Unix seconds."""
    last: dict[str, Any]
    """Metrics of the last step."""


class TrainingRuns(msgspec.Struct, frozen=True):
    """Trainings of the project on this machine, the last changed first."""

    runs: list[TrainingSummary]


class TrainingCurves(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics of a training by step."""

    name: str
    steps: int
    every: int
    """Each n-th step is here; 1 for all of them."""
    records: list[dict[str, Any]]


@group.route("GET", "/v1/training-runs", READ)
async def list_training_runs(server: Services) -> TrainingRuns:
    """List the trainings of the project that the server was started in."""
    return TrainingRuns(await server.in_thread(_runs, server))


@group.route("GET", "/v1/training-runs/{name}", READ)
async def get_training_run(server: Services, name: str) -> TrainingCurves:
    """Get the curves of a training."""
    return await server.in_thread(_curves, server, name)


def _folders(server: Services) -> list[Path]:
    runs = server.project / STATE_NAME / RUNS if server.project else None
    if runs is None or not runs.is_dir():
        return []
    return [path for path in runs.iterdir() if path.is_dir()]


def _runs(server: Services) -> list[TrainingSummary]:
    found = []
    for folder in _folders(server):
        records = read_metrics(folder)
        found.append(
            TrainingSummary(
                name=folder.name,
                steps=len(records),
                updated_at=folder.stat().st_mtime,
                last=records[-1] if records else {},
            )
        )
    return sorted(found, key=lambda run: run.updated_at, reverse=True)


def _curves(server: Services, name: str) -> TrainingCurves:
    folder = next((each for each in _folders(server) if each.name == name), None)
    if folder is None:
        raise Problem(404, f"There is no training {name[:200]!r} on this machine.", field="name")
    records = read_metrics(folder)
    every = max(1, -(-len(records) // POINTS))
    return TrainingCurves(
        name=name, steps=len(records), every=every, records=list(records[::every])
    )
