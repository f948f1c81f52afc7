"""Releases of cycles, and their way back: by pull request or at run time.

Every function may be called again after a crash: what it did is found done.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ratchet.autopilot.cycle.learning import advance_run
from ratchet.autopilot.cycle.parts import RequestState
from ratchet.autopilot.project import Project
from ratchet.autopilot.pull_requests import propose_release, refresh_release, revert_release
from ratchet.autopilot.release_notes import release_notes
from ratchet.ship import activate, deactivate
from ratchet.ship.repository import Repository
from ratchet.store import Store
from ratchet.types import Activation, Cycle, CycleAction, Release, ShipError

REQUEST_STATES: dict[str, RequestState] = {
    "branched": "open",
    "proposed": "open",
    "merged": "merged",
    "closed": "closed",
    "rolled_back": "closed",
}
"""What a release's state says about its request; without a remote, about its branch."""


async def propose_candidate(
    project: Project, store: Store, cycle: Cycle, say: Callable[[str], None]
) -> dict[str, Any]:
    """Make the branch of the proved candidate, push it, and open its pull request.

    In a repository without remotes, the branch is all there is; merging it is the approval.

    Raises:
        RatchetError: As for `improve` and `propose_release`.
    """
    release = await branched(project, store, cycle, say)
    if not Repository.open(project.root).text("remote").split():
        return {"release_id": release.id, "request": release.branch}
    proposed = propose_release(project, store, release)
    assert proposed.request is not None
    return {"release_id": release.id, "request": proposed.request.url}


async def branched(
    project: Project, store: Store, cycle: Cycle, say: Callable[[str], None]
) -> Release:
    """The release that `improve` makes of the cycle's run."""
    run = await advance_run(project, store, cycle, say, ship_it=True)
    release = store.releases.get(run.release_id)
    if release is None or not release.branch:
        raise ShipError(f"Run {run.id[:12]} made no branch, so there is nothing to propose.")
    return release


def request_state(project: Project, store: Store, cycle: Cycle) -> RequestState:
    """State of the cycle's pull request, or of its branch where there is no remote.

    Raises:
        RatchetError: As for `refresh_release`.
    """
    release = store.releases.get(cycle.release_id)
    assert release is not None
    return REQUEST_STATES[refresh_release(project, store, release).state]


def withdraw_request(project: Project, store: Store, cycle: Cycle, why: str) -> dict[str, Any]:
    """Close the cycle's pull request and delete its branch, if they exist.

    Raises:
        RatchetError: As for `revert_release`.
    """
    release = _release_of(store, cycle)
    if release is None:
        return {}
    if release.request is None and _may_be_open(store, cycle):
        release = propose_release(project, store, release)  # finds what a crash left open
    release = refresh_release(project, store, release)
    if release.state in ("branched", "proposed"):
        revert_release(project, store, release, why)
    return {}


def revert_merged(project: Project, store: Store, cycle: Cycle, why: str) -> dict[str, Any]:
    """Open the request that reverts the cycle's merged release.

    Raises:
        RatchetError: As for `revert_release`.
    """
    release = _release_of(store, cycle)
    assert release is not None
    release = refresh_release(project, store, release)
    undone = release.state == "rolled_back" and (release.request is None or release.revert)
    if not undone:
        release = revert_release(project, store, release, why)
    where = release.revert.url if release.revert is not None else release.rollback
    return {"revert": where, "message": f"{why} Rolled back: {where}."}


def activate_candidate(project: Project, store: Store, cycle: Cycle) -> dict[str, Any]:
    """Make the cycle's candidate the live agent's release.

    Raises:
        ShipError: It was not proved.
    """
    experiment = store.experiments.get(cycle.experiment_id)
    run = store.runs.get(cycle.run_id)
    assert experiment is not None
    assert experiment.decision is not None
    assert run is not None
    release = activate(
        store,
        agent=cycle.agent,
        repo=project.root,
        baseline=store.candidates.get(cycle.baseline_id),
        candidate=store.candidates.get(cycle.candidate_id),
        decision=experiment.decision,
        evidence_path=Path(experiment.evidence_path),
        experiment_id=experiment.id,
        out_dir=project.state / "releases",
        now=time.time(),
        reasons={},
        notes=release_notes(store, run),
    )
    return {"release_id": release.id}


def deactivate_candidate(
    store: Store, agent: str, action: CycleAction, cycle: Cycle, now: float
) -> dict[str, Any]:
    """Make active again what was active before the cycle's candidate.

    A release that is no longer in effect stays as it is.
    """
    active = store.agents.active(agent)
    candidate_id = action.body["candidate_id"]
    if active is None or active.candidate_id != candidate_id:
        return {}
    release = store.releases.get(cycle.release_id)
    if release is not None and release.state == "active":
        store.releases.put(deactivate(store, release, now))
        return {}
    before = [a.candidate_id for a in store.agents.history(agent) if a.candidate_id != candidate_id]
    reason = f"The watch of cycle {cycle.id[:12]}: {action.body['why']}"
    store.agents.activate(
        Activation(
            agent=agent,
            candidate_id=before[0] if before else "",
            activated_at=now,
            reason=reason[:500],
        )
    )
    return {}


def _release_of(store: Store, cycle: Cycle) -> Release | None:
    run = store.runs.get(cycle.run_id)
    return store.releases.get(cycle.release_id or (run.release_id if run else ""))


def _may_be_open(store: Store, cycle: Cycle) -> bool:
    """Whether a request was begun, and the process ended before it was stored."""
    return any(a.kind == "propose" and a.tries for a in store.outbox.list(cycle.id))
