"""Metrics of a training run: a JSON line for each step, stored beside the checkpoints."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ratchet.stats.student_t import t_quantile
from ratchet.types import StoreError

METRICS = "metrics.jsonl"
"""Name of the file in the run's folder."""


class ValResult(msgspec.Struct, frozen=True, kw_only=True):
    """How good a version of the weights is on data that it was not trained on."""

    value: float
    """Larger is better: the mean reward, or the negative loss."""
    low: float | None
    high: float | None
    """Bounds of the interval with 95 % coverage; None for a single task."""
    count: int
    """Number of tasks or examples behind the mean."""
    candidate: str = ""
    """Candidate with these weights, if it has made rollouts; otherwise empty."""


def validation_of(values: Sequence[float]) -> ValResult | None:
    """The mean of values and Student's interval of it; None without values.

    Args:
        values: One for each task or example.
    """
    if not values:
        return None
    n = len(values)
    mean = sum(values) / n
    if n == 1:
        return ValResult(value=mean, low=None, high=None, count=1)
    deviation = (sum((value - mean) ** 2 for value in values) / (n - 1)) ** 0.5
    width = t_quantile(0.975, n - 1) * deviation / n**0.5
    return ValResult(value=mean, low=mean - width, high=mean + width, count=n)


def append_metrics(folder: Path, record: dict[str, Any]) -> None:
    """Append a record, which has a `step`, to the metrics of the run in `folder`.

    Raises:
        StoreError: It cannot be written.
    """
    _write(folder / METRICS, [record], "ab")


def drop_metrics_after(folder: Path, step: int) -> None:
    """Delete the records of steps that a resumed run repeats.

    Raises:
        StoreError: The file cannot be written.
    """
    records = read_metrics(folder)
    retained = [record for record in records if record["step"] <= step]
    if len(retained) < len(records):
        rewritten = folder / f"{METRICS}.partial"
        _write(rewritten, retained, "wb")
        rewritten.replace(folder / METRICS)


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The records of a run in the order of its steps; a line that a kill cut short is left out."""
    try:
        lines = (folder / METRICS).read_bytes().splitlines()
    except FileNotFoundError:
        return []
    records = []
    for line in lines:
        try:
            records.append(msgspec.json.decode(line, type=dict[str, Any]))
        except msgspec.DecodeError:
            continue
    return records


def _write(path: Path, records: Iterable[dict[str, Any]], mode: str) -> None:
    try:
        with open(path, mode, opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.writelines(msgspec.json.encode(record) + b"\n" for record in records)
    except OSError as error:
        raise StoreError(
            f"{path} cannot be written: {error.strerror}.",
            hint="Free space on that disk, or make it writable.",
        ) from None
