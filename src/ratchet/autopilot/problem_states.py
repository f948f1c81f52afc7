"""The state of a problem, which follows from its newest run and that run's release."""

from __future__ import annotations

from ratchet.autopilot.freezing import freeze_fixed
from ratchet.autopilot.problem_reports import DAYS, trace_counts
from ratchet.store import Store
from ratchet.types import PROBLEM_TRANSITIONS, FrozenSet, Problem, ProblemState, Release, Run
from ratchet.types.cycle import DAY_S

_RELEASES: dict[str, tuple[ProblemState, str]] = {
    "branched": ("proposed", "Its branch is made: {where}."),
    "proposed": ("proposed", "Its pull request is open: {where}."),
    "merged": ("fixed", "It was merged: {where}."),
    "active": ("fixed", "Its release is active."),
    "closed": ("open", "Its pull request was closed without a merge: {where}."),
    "rolled_back": ("open", "Its release was rolled back."),
}
"""State of a problem by the state of its release, and why."""

WORKED_ON: frozenset[ProblemState] = frozenset({"learning", "proposed", "fixed"})
"""States that follow from a run or a release."""


def settle(store: Store, now: float) -> list[Problem]:
    """Update the problems that a run works on, or a release fixed, from its present state.

    Args:
        store: The store.
        now: Unix seconds.

    Returns:
        The problems that changed.
    """
    changed = []
    for problem in store.problems.list():
        if problem.state not in WORKED_ON or not problem.run_ids:
            continue
        if problem.state == "fixed" and problem.by:
            continue  # a person says so
        run = store.runs.get(problem.run_ids[-1])
        if run is None:
            continue
        release = _release_of(store, run)
        target, reason = _standing(run, release)
        if target == "open" and problem.fixed_at:
            target = "returned"
        if target not in PROBLEM_TRANSITIONS[problem.state]:
            continue  # it is there, or what it was fixed by is deleted
        frozen = _frozen(store, problem, run, now) if target == "fixed" else None
        changed.append(
            store.problems.change(
                problem.id,
                target,
                reason=reason,
                now=now,
                release_id=release.id if release is not None else "",
                requests=_requests(problem, release),
                frozen_set=frozen.id if frozen is not None else problem.frozen_set,
                fixed_at=now if target == "fixed" else problem.fixed_at,
            )
        )
    return changed


def _frozen(store: Store, problem: Problem, run: Run, now: float) -> FrozenSet | None:
    traces = trace_counts(store, now - DAYS * DAY_S)
    (report,) = store.problems.reports([problem], traces, days=DAYS, now=now)
    return freeze_fixed(store, problem, run, loss=report.weight, now=now)


def _release_of(store: Store, run: Run) -> Release | None:
    """The newest release from a run's experiment: a branch, or a release at run time."""
    releases = [
        release
        for release in store.releases.list()
        if run.experiment_id and release.experiment_id == run.experiment_id
    ]
    return releases[0] if releases else None


def _requests(problem: Problem, release: Release | None) -> tuple[str, ...]:
    if release is None or release.request is None or release.request.url in problem.requests:
        return problem.requests
    return (*problem.requests, release.request.url)


def _standing(run: Run, release: Release | None) -> tuple[ProblemState, str]:
    if release is not None:
        state, reason = _RELEASES[release.state]
        address = release.request.url if release.request is not None else release.branch
        return state, reason.format(where=address)
    if run.stage in ("no_gain", "not_proved", "failed"):
        return "open", f"Run {run.id[:8]} ended without a release: {run.message}"
    return "learning", f"Run {run.id[:8]} is working on it."
