"""What the command and the server say about problems: the list, and one with its traces."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from ratchet.autopilot.problem_reports import DAYS, reports, trace_counts
from ratchet.autopilot.problem_scan import FAILURE_READER
from ratchet.store import Store
from ratchet.types import Occurrence, Problem, ProblemReport, ProblemState, ProblemTransition
from ratchet.types.cycle import DAY_S

TRACES_SHOWN = 100
"""Maximum number of a problem's traces in an answer that asks for no other."""


class ProblemList(msgspec.Struct, frozen=True, kw_only=True):
    """Problems, worst first by share of traffic × loss."""

    problems: list[ProblemReport]
    total: int
    """Number of all problems, including those beyond the limit."""
    traces: int
    """Number of traces in the window."""
    failing: int
    """Number of failing traces in the window."""
    in_no_problem: int
    """Number of failing traces in the window that are in no problem yet."""
    unread: int
    """Number of failing traces in the window that a coach can read and has not read."""
    days: int = DAYS
    """Length of the window."""
    scanned_at: float
    """When traces were last scanned, in Unix seconds; 0 for never."""


class ProblemDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A problem with its traces and its history."""

    report: ProblemReport
    occurrences: list[Occurrence]
    """Newest first, each trace once, up to the number asked for."""
    unread: int
    """Number of its traces in the window that a coach can read and has not read."""
    transitions: list[ProblemTransition]
    """Changes of its state, oldest first."""
    is_at_work: bool
    """Whether a process is at work on its newest run."""
    frozen_tasks: int | None
    """Number of tasks in its frozen set; None if it has no set."""


def problem_list(
    store: Store,
    *,
    now: float,
    agent: str | None = None,
    states: Collection[ProblemState] | None = None,
    limit: int,
) -> ProblemList:
    """The problems of the last DAYS days, and how many failing traces they leave out.

    Args:
        store: The store.
        now: Unix seconds.
        agent: Only of this agent.
        states: Only in one of these states.
        limit: Maximum number of problems.
    """
    found, traces = reports(store, now=now, agent=agent)
    wanted = [report for report in found if states is None or report.problem.state in states]
    since = now - DAYS * DAY_S
    failing, in_no_problem = store.problems.failing(agent, since)
    return ProblemList(
        problems=wanted[:limit],
        total=len(wanted),
        traces=traces,
        failing=failing,
        in_no_problem=in_no_problem,
        unread=store.problems.unread_count(agent, since),
        scanned_at=store.problems.place(FAILURE_READER).at,
    )


def problem_detail(
    store: Store, problem: Problem, *, now: float, limit: int = TRACES_SHOWN
) -> ProblemDetail:
    """A problem with its traces and its history.

    Args:
        store: The store.
        problem: The problem.
        now: Unix seconds.
        limit: Maximum number of traces.
    """
    id, runs, since = problem.id, problem.run_ids, now - DAYS * DAY_S
    traces = trace_counts(store, since)
    frozen_set = store.frozen_sets.get(problem.frozen_set) if problem.frozen_set else None
    return ProblemDetail(
        report=store.problems.reports([problem], traces, days=DAYS, now=now)[0],
        occurrences=store.problems.occurrences(id, limit=limit),
        unread=store.problems.unread_count(problem.agent, since, id),
        transitions=store.problems.transitions(id),
        is_at_work=bool(runs) and store.activity.waits(runs[-1], now) is not None,
        frozen_tasks=None if frozen_set is None else len(frozen_set.tasks),
    )
