"""Reports how many tasks the proof of a usual gain needs, and the fastest way to get them."""

from __future__ import annotations

from collections.abc import Sequence

from ratchet.prove.tasks_needed import PLANNED_VARIANCE, tasks_needed
from ratchet.stats.gain import USUAL_GAIN
from ratchet.store import Store
from ratchet.types import Dataset
from ratchet.types.trace import TraceFilter
from ratchet.types.wording import counted

_WEEK_S = 7 * 86_400.0
_MOST_TRACES = 2_000


def proof_outlook(
    dataset: Dataset,
    scores: Sequence[float],
    *,
    answered: bool,
    alpha: float,
    min_gain: float,
    repetitions: int | str,
    stored: bool,
    store: Store,
    now: float,
) -> list[str]:
    """Sentences on how many test tasks a proof needs, and what to do if there are fewer.

    The spread of the differences is not known yet. It is taken to be that of the baseline's val
    scores, as if half of it were common to both candidates, and of one more task's by plan.

    Args:
        dataset: The tasks.
        answered: Whether only those with an expected answer take part.
        scores: The baseline's scores on val tasks.
        alpha: Level of the next experiment.
        min_gain: The smallest relevant gain.
        repetitions: As configured.
        stored: Whether it is a dataset of the store, and not a task file.
        store: Where live traces are counted.
        now: Unix seconds.
    """
    gain = max(USUAL_GAIN, min_gain)
    test = len(dataset.split("test", answered=answered))
    # One score says nothing of its spread; few say little.
    spread = (PLANNED_VARIANCE + (len(scores) - 1) * variance(scores)) / len(scores)
    needed = tasks_needed(alpha, gain, spread)
    outlook = f"Proving a gain of {gain:.2g} will take about {counted(needed, 'test task')}"
    if test >= needed:
        return [f"{outlook}; there are {test}."]
    ways = [
        *_by_labels(dataset, stored),
        *_by_capture(dataset, needed - test, stored, store, now),
        *_by_repetitions(repetitions),
        "synthesized tasks help learning only: a proof needs tasks from real use",
    ]
    numbered = "; ".join(f"({number}) {way}" for number, way in enumerate(ways, start=1))
    larger = tasks_needed(alpha, 1.0, 0.0) <= test
    return [
        f"{outlook}, but there are {test}{': only larger gains are likely to be proved' * larger}.",
        f"Ways to get more evidence, fastest first: {numbered}.",
    ]


def _by_labels(dataset: Dataset, stored: bool) -> list[str]:
    unanswered = sum(task.expected is None for task in dataset.split("test"))
    if not stored or not unanswered or unanswered == len(dataset.split("test")):
        return []
    return [
        f"{unanswered} test tasks have no expected answer: have people answer them, and import "
        "the answers"
        f" (ratchet datasets import {dataset.name} FILE)"
    ]


def _by_capture(
    dataset: Dataset, missing: int, stored: bool, store: Store, now: float
) -> list[str]:
    name = dataset.name if stored else "NAME"
    command = f"ratchet datasets capture {name}"
    last_week = TraceFilter(since_ns=int((now - _WEEK_S) * 1e9), own_calls=False)
    traces, more = store.traces.list(last_week, limit=_MOST_TRACES)
    if not traces:
        return [f"record real traffic (docs/tracing.md; the last week had none), then {command}"]
    first = traces[-1].start_ns / 1e9 if more is not None else now - _WEEK_S
    share = len(dataset.split("test")) / max(1, len(dataset.tasks))
    a_day = len(traces) / max((now - first) / 86_400.0, 1e-3)
    days = missing / max(share * a_day, 1e-9)
    when = (
        "at once"
        if len(traces) * share >= missing
        else f"in about {counted(max(1, round(days)), 'day')}"
    )
    return [
        f"capture tasks from traffic ({command}): at {a_day:.0f} traces a day there will be enough "
        f"test tasks {when}, if the inputs are new"
    ]


def _by_repetitions(repetitions: int | str) -> list[str]:
    if repetitions == "auto":
        return []  # planned by a pilot, and reported there
    return ['repetitions = "auto" under [prove], if the agent\'s answers vary from call to call']


def variance(scores: Sequence[float]) -> float:
    """Variance of a sample of scores."""
    mean = sum(scores) / len(scores)
    return sum((score - mean) ** 2 for score in scores) / max(1, len(scores) - 1)
