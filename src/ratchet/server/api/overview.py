"""The overview: the state of each agent, recent decisions, and what needs a person."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from datetime import UTC, date, datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ratchet._waiting import LongWait
from ratchet.llm import price
from ratchet.llm.endings import Ending, ending_of
from ratchet.server.api.fields import Request
from ratchet.server.http_problems import HttpProblem
from ratchet.server.routes import READ, RouteGroup
from ratchet.server.services import Services
from ratchet.store import Store
from ratchet.store.trace_index import AgentFigures
from ratchet.types import FINAL_CYCLE_STATES, Cycle, Experiment, Release, Run
from ratchet.types.cycle import DAY_S

group = RouteGroup("overview")

MIN_HOURS = 0.01
"""Shortest period, in hours: much shorter periods would have steps of no length."""

BUCKETS = 31
"""Maximum number of steps in a period; the series has one more, as the period begins within one."""

STEPS_H = (1, 2, 3, 6, 12)
"""Possible hours of a step shorter than a day; longer steps are whole days."""

LATEST = 5
"""Experiments, releases and runs in an answer."""

OPEN_RELEASES = 200
"""How many of the newest releases are searched for pull requests that await review."""

SILENT_COACH_S = 600.0
"""Seconds after which an unanswered call to the coach needs a person."""

CACHE_TTL_S = 5.0
"""Seconds for which an answer is kept."""


class OverviewQuery(Request, frozen=True, kw_only=True):
    """The requested period."""

    hours: Annotated[float, Meta(gt=0, le=24 * 366)] = 168


class Bucket(msgspec.Struct, kw_only=True):
    """One interval of time."""

    at: float
    """Its start, in Unix seconds."""
    traces: int = 0
    errors: int = 0
    """Traces with a failed span."""
    known_usd: float = 0.0
    """Dollars of the calls whose price is known."""
    unpriced: int = 0
    """Traces with a call whose price is unknown."""
    rated: int = 0
    """Traces with feedback that has a value."""
    feedback: float | None = None
    """Mean over these traces of the lowest feedback."""


class DayCost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of the agents' calls on a day."""

    at: float
    """Its start in UTC, in Unix seconds."""
    traces: int
    known_usd: float
    """Dollars of the calls whose price is known."""
    unpriced: int
    """Traces with a call whose price is unknown."""


class AgentOverview(msgspec.Struct, kw_only=True):
    """The state of one agent."""

    name: str
    traces: int = 0
    errors: int = 0
    """Traces with a failed span."""
    known_usd: float = 0.0
    """Dollars of the calls whose price is known."""
    cost_usd: float | None = 0.0
    """Dollars; None when the price of a call is unknown."""
    feedback: float | None = None
    feedback_count: int = 0
    active_candidate_id: str = ""
    cycle: Cycle | None = None
    """The newest cycle of its autopilot."""
    series: list[Bucket] = []


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """Something that waits for a person; of an agent's runs, only the last one can."""

    kind: Literal[
        "approval", "branch", "labels", "pull_request", "failed_run", "coach", "ending_model"
    ]
    title: str
    detail: str
    noun: str
    """Kind of what waits; with `id` it names its page. Empty if it has no page."""
    id: str
    command: str
    """The command that handles it."""


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the loop."""

    now: float
    """Unix seconds."""
    bucket_s: float
    agents: list[AgentOverview]
    """Agents with the most traces first."""
    waiting: list[Waiting]
    latest: list[Experiment]
    """Newest first."""
    releases: list[Release]
    """Newest first."""
    runs: list[Run]
    """Last changed first."""
    at_work: dict[str, list[LongWait]]
    """By id, each of these runs that a process is working on, with what it waits for."""
    days: list[DayCost]
    """Each day of the period that has traces, oldest first; the first day counts from its
    midnight."""
    complete_until: float | None
    """Unix seconds of the first trace that is not counted yet; None when all are."""


class _Kept(msgspec.Struct):
    at: float
    overview: Overview


@group.route("GET", "/v1/overview", READ)
async def get_overview(server: Services, query: OverviewQuery) -> Overview:
    """Get the state of the loop.

    The first step is the whole hour, or the whole day where the period is longer than two weeks,
    in which the period begins. Every figure is exact as long as `complete_until` is null. An answer
    may be five seconds old.
    """
    if query.hours < MIN_HOURS:
        raise HttpProblem(
            400, f"hours is {query.hours:g}; it must be at least {MIN_HOURS}.", field="hours"
        )
    cache: dict[float, _Kept] = server.kept.setdefault("overview", {})
    cached = cache.get(query.hours)
    if cached is None or time.monotonic() - cached.at > CACHE_TTL_S:
        overview = await server.in_thread(_overview, server.store, query.hours, time.time())
        cache.clear() if len(cache) > 20 else None
        cache[query.hours] = cached = _Kept(time.monotonic(), overview)
    return cached.overview


def _overview(store: Store, hours: float, now: float) -> Overview:
    # Steps begin at multiples of their length, so that a reload shows the same ones.
    step_h = _step_h(hours)
    bucket_s = step_h * 3600.0
    first = int((now - hours * 3600.0) // bucket_s)
    buckets = int(now // bucket_s) - first + 1
    since_h = first * step_h
    since = since_h * 3600.0
    state = store.trace_index.catch_up(price)
    figures = store.trace_index.figures(since_h, step_h)
    cycles = store.cycles.list(limit=200)
    agents: dict[str, AgentOverview] = {}

    def agent(name: str) -> AgentOverview:
        if name not in agents:
            series = [Bucket(at=since + number * bucket_s) for number in range(buckets)]
            agents[name] = AgentOverview(name=name, series=series)
        return agents[name]

    for sums in figures:
        if sums.step >= 0:
            _add(agent(sums.agent), min(sums.step, buckets - 1), sums)
    for cycle in reversed(cycles):
        agent(cycle.agent).cycle = msgspec.structs.replace(cycle, progress={})
    for agent_overview in agents.values():
        active = store.agents.active(agent_overview.name)
        agent_overview.active_candidate_id = active.candidate_id if active else ""
    runs = store.runs.list(LATEST)
    releases = store.releases.list(LATEST)
    activity = {run.id: store.activity.waits(run.id, now) for run in runs}
    return Overview(
        now=now,
        bucket_s=bucket_s,
        agents=sorted(
            agents.values(),
            key=lambda agent_overview: (-agent_overview.traces, agent_overview.name),
        ),
        waiting=[
            *_waiting(cycles, runs, store.releases.list(OPEN_RELEASES)),
            *_silent_coaches(runs, activity, now),
            *_ending(store, int(since * 1e9), now),
        ],
        latest=store.experiments.list(LATEST),
        releases=releases,
        runs=runs,
        at_work={id: waits for id, waits in activity.items() if waits is not None},
        days=_days(figures),
        complete_until=state.complete_until,
    )


def _step_h(hours: float) -> int:
    """Whole hours of a step: few enough for `BUCKETS` steps."""
    short = next((step for step in STEPS_H if hours <= step * BUCKETS), None)
    return short or 24 * math.ceil(hours / 24 / BUCKETS)


def _add(agent: AgentOverview, step: int, sums: AgentFigures) -> None:
    bucket = agent.series[step]
    bucket.traces += sums.traces
    bucket.errors += sums.errors
    bucket.known_usd += sums.known_usd
    bucket.unpriced += sums.unpriced
    bucket.rated += sums.rated
    if sums.rated:
        earlier = (bucket.feedback or 0.0) * (bucket.rated - sums.rated)
        bucket.feedback = (earlier + sums.worst_sum) / bucket.rated
    agent.traces += sums.traces
    agent.errors += sums.errors
    agent.known_usd += sums.known_usd
    if sums.unpriced:
        agent.cost_usd = None
    elif agent.cost_usd is not None:
        agent.cost_usd += sums.known_usd
    if sums.rated:
        rating_sum = (agent.feedback or 0.0) * agent.feedback_count + sums.worst_sum
        agent.feedback_count += sums.rated
        agent.feedback = rating_sum / agent.feedback_count


def _days(figures: list[AgentFigures]) -> list[DayCost]:
    by_day: dict[int, list[AgentFigures]] = defaultdict(list)
    for sums in figures:
        by_day[sums.day].append(sums)
    return [
        DayCost(
            at=day * DAY_S,
            traces=sum(each.traces for each in by_day[day]),
            known_usd=sum(each.known_usd for each in by_day[day]),
            unpriced=sum(each.unpriced for each in by_day[day]),
        )
        for day in sorted(by_day)
    ]


def _waiting(cycles: list[Cycle], runs: list[Run], releases: list[Release]) -> list[Waiting]:
    waiting = []
    for cycle in cycles:
        if cycle.state in FINAL_CYCLE_STATES:
            continue
        if cycle.state == "approval":
            waiting.append(
                Waiting(
                    kind="approval",
                    title=f"{cycle.agent}: a proved candidate is waiting for your approval",
                    detail=cycle.waits,
                    noun="cycle",
                    id=cycle.id,
                    command=f"ratchet autopilot approve {cycle.id[:12]}",
                )
            )
    taken_up = {cycle.release_id for cycle in cycles if cycle.state not in FINAL_CYCLE_STATES}
    superseded: set[str] = set()
    for release in releases:
        if release.state == "proposed" and release.request and release.request.state == "open":
            waiting.append(
                Waiting(
                    kind="pull_request",
                    title=f"Pull request #{release.request.number} is waiting for review",
                    detail=release.request.url,
                    noun="release",
                    id=release.id,
                    command="",
                )
            )
        elif (
            release.state == "branched"
            and release.id not in taken_up
            and release.repo not in superseded
        ):
            draft = "A draft" if release.draft else "A proved change"
            waiting.append(
                Waiting(
                    kind="branch",
                    title=f"{draft} is on a branch, waiting for its pull request or its merge",
                    detail=release.branch,
                    noun="release",
                    id=release.id,
                    command=f"ratchet ship {release.id[:12]}",
                )
            )
        if release.repo and release.state in ("branched", "proposed", "merged"):
            superseded.add(release.repo)  # by this one, which is newer than those that follow
    settled: set[str] = set()
    for run in sorted(runs, key=lambda run: -run.updated_at):
        if run.agent in settled:
            continue  # a later run of the agent has been made, so this one is left behind
        settled.add(run.agent)
        if run.stage == "failed":
            waiting.append(
                Waiting(
                    kind="failed_run",
                    title=f"A run of {run.agent} stopped in {run.failed_at or 'its work'}",
                    detail=run.message,
                    noun="run",
                    id=run.id,
                    command="ratchet improve",
                )
            )
        elif run.stage == "prove" and "label" in run.message:
            waiting.append(
                Waiting(
                    kind="labels",
                    title=f"A decision about {run.agent} is waiting for labels",
                    detail=run.message,
                    noun="run",
                    id=run.id,
                    command="ratchet label",
                )
            )
    return waiting


def _silent_coaches(
    runs: list[Run], activity: dict[str, list[LongWait] | None], now: float
) -> list[Waiting]:
    return [
        Waiting(
            kind="coach",
            title=f"The coach of {run.agent} does not answer",
            detail=f"The run has been waiting for {round((now - wait.since) / 60)} minutes.",
            noun="run",
            id=run.id,
            command="ratchet status",
        )
        for run in runs
        for wait in activity[run.id] or ()
        if wait.what == "the coach" and now - wait.since > SILENT_COACH_S
    ]


def _ending(store: Store, since_ns: int, now: float) -> list[Waiting]:
    """The called models that will be retired, soonest first."""
    today = datetime.fromtimestamp(now, UTC).date()
    ending: dict[str, tuple[Ending, str]] = {}
    for called in store.called_models.list(since_ns):
        if end := ending_of(called.model, called.provider):
            ending.setdefault(end.model, (end, called.agent))
    return [
        Waiting(
            kind="ending_model",
            title=end.sentence(today),
            detail=f"Called by {agent or 'a run'}. Source: {end.source}.",
            noun="",
            id=end.model,
            command=end.command(),
        )
        for end, agent in sorted(ending.values(), key=lambda entry: entry[0].on or date.max)
    ]
