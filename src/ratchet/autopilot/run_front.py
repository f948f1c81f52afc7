"""The front of a run: quality, cost and latency of each candidate, compared with the source.

Candidates of earlier runs under the same conditions are on it, too: any of them may be shipped.

Candidates run different tasks: a search gives most of them a few, and begins with those that the
source fails. So their means cannot be compared, and neither can their gains on what they ran. All
places are on the tasks that the source ran; what a candidate did not run counts as unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, repeat
from math import fsum
from string import ascii_lowercase
from typing import Literal

import msgspec

from ratchet.autopilot.earlier_runs import earlier_runs
from ratchet.autopilot.guardrails import LATENCY_FLOOR_S
from ratchet.learn.candidate_stats import interval
from ratchet.learn.work import FAILED_STATUSES
from ratchet.stats.front import Point, front
from ratchet.stats.gain import is_clear
from ratchet.store import Store
from ratchet.store.scores import MeasuredRollout
from ratchet.types import InputError, Run, Verdict
from ratchet.types.wording import counted

CROWDED = "●"
"""Mark in plots of candidates on the front when letters run out."""

LEARNING = "learn/"
"""Prefix of the purpose of rollouts that learning compares candidates by."""


class CandidatePlace(msgspec.Struct, frozen=True, kw_only=True):
    """Quality, cost and latency of a candidate on the tasks that the source ran."""

    candidate_id: str
    tasks: int
    """Number of these tasks that it ran."""
    quality: float
    """Mean of the objective."""
    low: float | None = None
    high: float | None = None
    """95 % interval of its gain over the source, for display; None for the source."""
    is_better: bool = False
    """Whether its gain exceeds its standard error."""
    cost_usd: float | None
    """Dollars for a rollout; None if a price is unknown."""
    latency_s: float | None
    """Seconds of a rollout; None if none was measured."""
    on_front: bool = False
    """Whether no other candidate is at least as good in all three and better in one."""
    letter: str = ""
    """Its mark in plots, if it is on the front and neither the source nor shipped."""
    is_known: bool = True
    """Whether it ran at least half of the tasks; if not, it has no place on the front."""
    verdict: Verdict | None = None
    """Verdict of its last proof against this source."""
    is_shipped: bool = False
    """Whether a release of it is open or in effect."""


class RunFront(msgspec.Struct, frozen=True, kw_only=True):
    """All candidates, including earlier runs', on the front or behind it."""

    metric: str
    """The objective."""
    tasks: int
    """Number of train and val tasks that the source ran."""
    source_id: str
    places: tuple[CandidatePlace, ...]
    """The source first, then by quality, best first."""

    @property
    def source(self) -> CandidatePlace:
        """The source's own place."""
        return self.places[0]

    @property
    def next_to_ship(self) -> CandidatePlace | None:
        """The best candidate on the front to prove: not clearly worse, and not tried yet."""
        able = (
            place
            for place in self.places
            if place.letter and place.verdict is None and not (place.high or 0.0) < 0.0
        )
        return next(able, None)

    @property
    def over(self) -> Literal["cost", "latency"]:
        """The axis for quality: cost if two costs are known to differ, otherwise latency."""
        costs = {place.cost_usd for place in self.places if place.is_known}
        return "cost" if len(costs - {None}) > 1 else "latency"

    @property
    def rule(self) -> str:
        """How places are measured, as sentences."""
        return (
            f"Each number is a mean over the {counted(self.tasks, 'train and val task')} that the"
            " source ran. For a task that a candidate did not run, the source's quality counts, and"
            " the source's cost and latency times the candidate's ratio to the source on the tasks"
            " that both ran; a candidate that ran fewer than half of the tasks has no place. A"
            " candidate is on the front if no other is at least as good in all three and better in"
            " one. A difference from the source within its standard error counts as none, and a"
            f" latency below {LATENCY_FLOOR_S:g} s as {LATENCY_FLOOR_S:g} s."
        )


class _Mean(msgspec.Struct, frozen=True):
    """Means of a candidate's rollouts of one task."""

    quality: float
    cost_usd: float | None
    latency_s: float | None


def run_front(store: Store, run: Run, metric: str) -> RunFront | None:
    """The candidates by quality, cost and latency up to a run; None before the source has run.

    Args:
        store: The run's store.
        run: The run, under way or over.
        metric: Name of its objective.
    """
    means = {
        candidate_id: {task: _mean([*by_seed.values()]) for task, by_seed in by_task.items()}
        for candidate_id, by_task in _measured(store, run, metric).items()
    }
    source = means.pop(run.baseline_id, {})
    if not source:
        return None
    proofs = {
        experiment.candidate_id: experiment.decision.verdict
        for experiment in store.experiments.history()
        if experiment.baseline_id == run.baseline_id and experiment.decision is not None
    }
    shipped = {
        release.candidate_id
        for release in store.releases.list(1000)
        if release.state not in ("closed", "rolled_back") and not release.draft
    }
    places, points = [], []
    for candidate_id, own in {run.baseline_id: source, **means}.items():
        place, point = _placed(candidate_id, own, source)
        places.append(
            msgspec.structs.replace(
                place, verdict=proofs.get(candidate_id), is_shipped=candidate_id in shipped
            )
        )
        points.append(point)
    known = [number for number, place in enumerate(places) if place.is_known]
    on_front = front([points[number] for number in known])
    for number, is_best in zip(known, on_front, strict=True):
        places[number] = msgspec.structs.replace(places[number], on_front=is_best)
    ranked = (places[0], *sorted(places[1:], key=lambda place: -place.quality))
    return RunFront(
        metric=metric,
        tasks=len(source),
        source_id=run.baseline_id,
        places=tuple(_lettered(ranked)),
    )


def _lettered(places: Sequence[CandidatePlace]) -> Iterator[CandidatePlace]:
    letters = chain(ascii_lowercase, repeat(CROWDED))
    for number, place in enumerate(places):
        named = number > 0 and place.on_front and not place.is_shipped
        yield msgspec.structs.replace(place, letter=next(letters)) if named else place


def _measured(
    store: Store, run: Run, metric: str
) -> dict[str, dict[str, dict[int, MeasuredRollout]]]:
    """Rollouts by candidate, task and seed, in the run and earlier ones under its conditions.

    Of those that were run anew, as after a service was down, the last counts.
    """
    own = store.scores.measured(run.id, LEARNING, metric)
    earlier = [
        (_contents(store, before), store.scores.measured(before.id, LEARNING, metric))
        for before in earlier_runs(run, store)
    ]
    # The evaluator as it is: as the newest run had it of which anything is scored.
    newest_first = [own, *(rollouts for _, rollouts in reversed(earlier))]
    scored_by = ({rollout.version for rollout in rollouts} - {""} for rollouts in newest_first)
    versions: set[str] = next(filter(None, scored_by), set())
    contents = _contents(store, run)
    comparable = [
        rollout
        for then, rollouts in earlier
        for rollout in rollouts
        if rollout.task_id in contents
        and contents[rollout.task_id] == then.get(rollout.task_id)
        and (rollout.version in versions or rollout.status in FAILED_STATUSES)
    ]
    measured: dict[str, dict[str, dict[int, MeasuredRollout]]] = {}
    for rollout in [*comparable, *own]:
        by_task = measured.setdefault(rollout.candidate_id, {})
        by_task.setdefault(rollout.task_id, {})[rollout.seed] = rollout
    return measured


def _contents(store: Store, run: Run) -> dict[str, str]:
    """Content of the tasks that a run learned from, by id."""
    try:
        dataset = store.datasets.get(run.dataset_version)
    except InputError:  # pruned since
        return {}
    return {task.id: task.content() for task in (*dataset.split("train"), *dataset.split("val"))}


def _mean(rollouts: Sequence[MeasuredRollout]) -> _Mean:
    qualities = [
        0.0 if rollout.status in FAILED_STATUSES or rollout.value is None else rollout.value
        for rollout in rollouts
    ]
    costs = [rollout.cost.usd for rollout in rollouts]
    durations = [rollout.duration_s for rollout in rollouts if rollout.duration_s is not None]
    known = [cost for cost in costs if cost is not None]
    return _Mean(
        quality=fsum(qualities) / len(qualities),
        cost_usd=fsum(known) / len(known) if len(known) == len(costs) else None,
        latency_s=fsum(durations) / len(durations) if durations else None,
    )


def _placed(
    candidate_id: str, own: Mapping[str, _Mean], source: Mapping[str, _Mean]
) -> tuple[CandidatePlace, Point]:
    """A candidate's place for display, and the point that is compared."""
    common = [task for task in source if task in own]
    gains = [own[task].quality - source[task].quality if task in own else 0.0 for task in source]
    before = fsum(mean.quality for mean in source.values()) / len(source)
    gain = fsum(gains) / len(gains)
    low, high = _gain_interval(gains)
    cost_usd, compared_cost = _burden(
        [own[task].cost_usd for task in common],
        [source[task].cost_usd for task in common],
        [mean.cost_usd for mean in source.values()],
    )
    latency_s, compared_latency = _burden(
        *_both_measured([(own[task].latency_s, source[task].latency_s) for task in common]),
        [mean.latency_s for mean in source.values() if mean.latency_s is not None],
    )
    is_source = own is source
    place = CandidatePlace(
        candidate_id=candidate_id,
        tasks=len(common),
        quality=before + gain,
        low=None if is_source else low,
        high=None if is_source else high,
        is_better=is_clear(gains),
        cost_usd=cost_usd,
        latency_s=latency_s,
        is_known=2 * len(common) >= len(source),
    )
    compared_quality = before + (gain if _differs(gains) else 0.0)
    if compared_latency is not None:
        compared_latency = max(compared_latency, LATENCY_FLOOR_S)
    return place, Point(compared_quality, compared_cost, compared_latency)


def _gain_interval(gains: Sequence[float]) -> tuple[float | None, float | None]:
    """Interval of a mean gain, that of scores scaled to gains; None for fewer than two."""
    low, high = interval([(gain + 1.0) / 2.0 for gain in gains])
    if low is None or high is None:
        return None, None
    return 2.0 * low - 1.0, 2.0 * high - 1.0


def _burden(
    own: Sequence[float | None], sources: Sequence[float | None], whole: Sequence[float | None]
) -> tuple[float | None, float | None]:
    """Cost or latency of a candidate: for display, and as it is compared.

    Args:
        own: The candidate's, of each task that both ran.
        sources: The source's, of the same tasks.
        whole: The source's, of all tasks.
    """
    mine = [value for value in own if value is not None]
    if not mine or len(mine) < len(own):
        return None, None
    before = [value for value in sources if value is not None]
    all_before = [value for value in whole if value is not None]
    if len(before) < len(sources) or len(all_before) < len(whole) or not fsum(before):
        mean = fsum(mine) / len(mine)
        return mean, mean
    mean_before = fsum(all_before) / len(all_before)
    mean = mean_before * fsum(mine) / fsum(before)
    differences = [after - then for after, then in zip(mine, before, strict=True)]
    return mean, mean if _differs(differences) else mean_before


def _both_measured(
    pairs: Sequence[tuple[float | None, float | None]],
) -> tuple[list[float], list[float]]:
    both = [(after, before) for after, before in pairs if after is not None and before is not None]
    return [after for after, _ in both], [before for _, before in both]


def _differs(differences: Sequence[float]) -> bool:
    """Whether the mean difference exceeds its standard error, in either direction."""
    return is_clear(differences) or is_clear([-difference for difference in differences])
