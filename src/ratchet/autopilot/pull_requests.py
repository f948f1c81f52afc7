"""Pull requests of a project's releases: opened, read back and reverted as `[ship]` sets."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

import msgspec

from ratchet.autopilot.code_sandbox import release_tests
from ratchet.autopilot.project import Project
from ratchet.ship import forges, refresh, refresh_active, rollback
from ratchet.ship.forges import ForgeSettings
from ratchet.ship.forges.branch import evidence_file
from ratchet.ship.live_proof import LiveProof
from ratchet.store import Store
from ratchet.types import Cycle, Dataset, RatchetError, Release, Run
from ratchet.types.stage import Observed


class TextOptions(TypedDict):
    """Arguments of `ship` that depend on how its pull request is opened."""

    evidence_shown: str
    server_url: str
    traces: dict[str, str]
    problem: str


def problem_of(store: Store, run: Run) -> str:
    """The problem that a run works on, in a sentence; empty for none."""
    for problem in store.problems.list():
        if run.id in problem.run_ids:
            return f"Problem {problem.id[:6]} of live traffic: {problem.title}"
    return ""


def text_options(
    project: Project, experiment_id: str, dataset: Dataset, problem: str = ""
) -> TextOptions:
    """The evidence, task traces and problem that the text of a release mentions."""
    section = project.config.ship
    return {
        "evidence_shown": evidence_file(experiment_id) if section.evidence else "",
        "server_url": section.server_url or "",
        "traces": {
            task.id: task.origin.sources[0]
            for task in dataset.tasks
            if task.origin.made == "captured" and task.origin.sources
        },
        "problem": problem,
    }


def forge_settings(project: Project) -> ForgeSettings:
    """The settings of pull requests in `[ship]`."""
    section = project.config.ship
    return ForgeSettings(
        remote=section.remote,
        base=section.base or "",
        forge=section.forge,
        api_url=section.api_url or "",
        repository=section.repository or "",
        token_env=section.token_env or "",
        app_id=section.app_id or "",
        app_key=project.root / Path(section.app_key).expanduser() if section.app_key else None,
        labels=section.labels,
        reviewers=section.reviewers,
        draft=section.draft,
        max_open=section.max_open,
        evidence=section.evidence,
    )


def propose_release(
    project: Project, store: Store, release: Release, environ: Mapping[str, str] = os.environ
) -> Release:
    """Open the pull request of a release, or bring it up to date; the release is stored.

    Raises:
        RatchetError: As `ship.forges.propose`; the release stays as it is.
    """
    request = forges.propose(
        release,
        project.root,
        forge_settings(project),
        tests=release_tests(project),
        environ=environ,
        live=live_proofs(project, store, release),
    )
    return _stored(store, release, forges.with_request(release, request))


def live_proofs(project: Project, store: Store, release: Release) -> list[LiveProof]:
    """The stages on live traffic that came before a release, oldest first."""
    return [
        LiveProof(decision, stage_evidence(project, cycle, decision.stage))
        for cycle in store.cycles.list()
        if cycle.experiment_id == release.experiment_id
        for decision in cycle.decisions
        if decision.stage != "watch"
    ]


def stage_evidence(project: Project, cycle: Cycle, stage: Observed) -> Path:
    """Path of the evidence file of a cycle's stage."""
    return project.state / "evidence" / f"{cycle.id[:12]}-{stage}.json"


def refresh_release(
    project: Project, store: Store, release: Release, environ: Mapping[str, str] = os.environ
) -> Release:
    """Update a release from the forge, and from the repository or the gateway.

    Raises:
        RatchetError: The forge cannot be asked, or the repository cannot be read.
    """
    if release.agent:
        return _stored(store, release, refresh_active(store, release))
    now = forges.refresh_request(release, project.root, forge_settings(project), environ=environ)
    return _stored(store, release, refresh(now, project.root))


def refresh_releases(
    project: Project, store: Store, environ: Mapping[str, str] = os.environ
) -> tuple[list[Release], list[str]]:
    """All releases in their current state, newest first, and why some could not be refreshed.

    A forge that fails is asked once: the releases are then as the repository tells.
    """
    releases: list[Release] = []
    problems: list[str] = []
    for release in store.releases.list(1000):
        if not problems or not release.request:
            try:
                releases.append(refresh_release(project, store, release, environ))
                continue
            except RatchetError as error:
                if release.request is None and release.revert is None:
                    raise
                problems.append(str(error))
        releases.append(_stored(store, release, refresh(release, project.root)))
    return releases, problems


def revert_release(
    project: Project,
    store: Store,
    release: Release,
    reason: str = "",
    environ: Mapping[str, str] = os.environ,
) -> Release:
    """Roll a release in the repository back; the release is stored.

    One whose pull request is open loses its branch, and the request is closed with a comment. For
    one that was merged through a pull request, the request that reverts it is opened. All others
    are rolled back in the repository alone, as `ship.rollback` does.

    Args:
        project: The project.
        store: Its store.
        release: The release, refreshed; or one whose rollback has not come to its end.
        reason: Why, as Markdown.
        environ: Where the token is.

    Raises:
        RatchetError: As `ship.forges.open_revert`, `ship.forges.withdraw` and `ship.rollback`.
    """
    tests, settings = release_tests(project), forge_settings(project)
    text = _revert_text(release, reason)
    release = msgspec.structs.replace(release, rollback_reason=reason)
    through_forge = release.request is not None
    merged = release.state == "merged" or release.rollback.startswith("ratchet/")
    if through_forge and merged and release.revert is None:
        undone = forges.open_revert(
            release, project.root, text, settings, tests=tests, environ=environ
        )
        return _stored(store, release, undone)
    if through_forge and release.state == "proposed":
        closed = forges.withdraw(release, project.root, text, settings, environ=environ)
        release = _stored(store, release, closed)
    return _stored(store, release, rollback(release, project.root, time.time(), tests=tests))


def _revert_text(release: Release, reason: str) -> str:
    of = f", which {release.request.url} merged" if release.request else ""
    text = f"This reverts release `{release.id[:12]}`{of}."
    return f"{text}\n\n{reason}" if reason else text


def _stored(store: Store, before: Release, after: Release) -> Release:
    if after != before:
        store.releases.put(after)
    return after
