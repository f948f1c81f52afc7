"""Ship a candidate, promoted or as a draft: patch, tests, commit, branch, and text of the
request."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ratchet.ship.check import NO_TESTS, TestCommand, run_tests
from ratchet.ship.commit import (
    is_release_of,
    release_message,
    store_release_commit,
    targets_of,
)
from ratchet.ship.evidence_text import read_evidence
from ratchet.ship.import_check import check_declared
from ratchet.ship.patch import Patch, diff_files, make_patch
from ratchet.ship.pull_request import pull_request, shown_path, write_text_file
from ratchet.ship.repository import Blob, Repository
from ratchet.types import (
    Candidate,
    Conflict,
    Decision,
    Declaration,
    Release,
    ShipError,
    content_hash,
)

_NOT_IN_REFS = re.compile(r"[^A-Za-z0-9_-]+")


def ship(
    *,
    repo: Path,
    baseline: Candidate,
    candidate: Candidate,
    declarations: Mapping[str, Declaration],
    decision: Decision,
    evidence_path: Path,
    experiment_id: str,
    out_dir: Path,
    now: float,
    tests: TestCommand = NO_TESTS,
    agent_entry: str = "",
    notes: Sequence[str] = (),
    evidence_shown: str = "",
    server_url: str = "",
    traces: Mapping[str, str] | None = None,
    problem: str = "",
    draft: bool = False,
) -> Release:
    """Make the branch of a promoted candidate, or find the existing one.

    A candidate that was not proved gets one as a draft, under another name.

    The user's work tree, index and current branch are not touched. The branch is created last: a
    call killed before that leaves nothing and is repeated; one killed after it is found again.

    Args:
        repo: Folder of the agent, in a git repository.
        baseline: The source's present state.
        candidate: The candidate that was proved better.
        declarations: Location of each resource, by name.
        decision: The experiment's outcome; its verdict must be `promote`, or `not_proved` for a
            draft.
        evidence_path: The evidence file that the pull request names.
        experiment_id: Id of the experiment.
        out_dir: Folder for the pull request's text.
        now: Unix seconds, the time of the commit.
        tests: The repository's own tests; the pull request states it if there are none.
        agent_entry: The agent, as MODULE:FUNCTION.
        notes: Sentences to add to the pull request.
        evidence_shown: Path of the evidence file in the pull request; by default its own.
        server_url: Address of the server that has the rollouts, for links in the pull request.
        traces: The live trace that a task was captured from, by the task's id.
        problem: The problem of live traffic that it is for; or empty.
        draft: Whether it is a draft of what was not proved.

    Raises:
        ShipError: Not promoted, no usable repository, uncommitted work, no safe patch, failing
            tests, or a branch of that name with other content.
        Conflict: Another process shipped the same candidate at the same time.
    """
    needed = "not_proved" if draft else "promote"
    if decision.verdict != needed:
        raise ShipError(
            f"The decision on candidate {candidate.id[:12]} is {decision.verdict!r}, not"
            f" {needed!r}, so it is not shipped."
        )
    if not evidence_path.is_file():
        raise ShipError(
            f"The evidence file {evidence_path} does not exist.",
            hint="A release needs it to verify its numbers; run the experiment again.",
        )
    repository = Repository.open(repo)
    branch = branch_name(baseline, candidate, draft=draft)

    tip = repository.commit_of(f"refs/heads/{branch}")
    if tip:
        prepared = _existing(repository, branch, tip, baseline, candidate)
    else:
        repository.check_idle()
        repository.check_clean()
        prepared = _new_commit(
            repository, baseline, candidate, declarations, decision, experiment_id, now
        )
    text_path = out_dir.resolve() / (branch.replace("/", "-") + ".md")
    release = Release(
        id=content_hash([experiment_id, candidate.id, prepared.commit]),
        experiment_id=experiment_id,
        candidate_id=candidate.id,
        baseline_id=baseline.id,
        state="branched",
        repo=str(repository.root),
        branch=branch,
        base=prepared.base,
        commit=prepared.commit,
        pull_request=str(text_path),
        evidence=str(evidence_path.resolve()),
        created_at=repository.committed_at(prepared.commit),
        draft=draft,
    )
    # A draft may have been compared on more tasks since.
    if tip and not draft and _is_written(text_path, prepared.commit):
        return release
    unchecked = _check_declared(repository, prepared, candidate, declarations, agent_entry, tests)
    report = run_tests(repository, prepared.commit, prepared.base, tests)
    if report.outcome not in ("passed", "not_configured"):
        outcome = f"The branch {branch} is unchanged." if tip else "No branch was created."
        hint = report.hint()
        raise ShipError(
            f"{report.sentence()} {outcome}\n{report.tail()}", hint=f"\n{hint}" if hint else None
        )
    text = pull_request(
        branch=branch,
        base=prepared.base,
        commit=prepared.commit,
        baseline=baseline,
        candidate=candidate,
        decision=decision,
        evidence=evidence_shown or shown_path(evidence_path, repository.root),
        content=read_evidence(evidence_path),
        experiment_id=experiment_id,
        release_id=release.id,
        agent_entry=agent_entry,
        diff=diff_files(prepared.files),
        tests=report,
        notes=[*notes, *filter(None, [unchecked])],
        server_url=server_url,
        traces=traces,
        problem=problem,
    )
    write_text_file(text_path, text)
    # The second reference protects the commit when the branch is deleted or squashed.
    if not tip and not repository.create_branch(branch, prepared.commit, release_ref(release.id)):
        raise Conflict(
            f"Another process created the branch {branch} at the same time.",
            hint="Run the same command again; it will use that branch.",
        )
    return release


def branch_name(baseline: Candidate, candidate: Candidate, *, draft: bool = False) -> str:
    """The release branch: `ratchet/<first changed resource>-<start of the candidate's id>`.

    That of a draft is `ratchet/draft-…`, so that the proved one is another.
    """
    names = candidate.changed_from(baseline)
    if not names:
        raise ShipError("The candidate is the same as the baseline, so there is nothing to ship.")
    name = _NOT_IN_REFS.sub("-", names[0]).strip("-")[:60] or "resource"
    return f"ratchet/{'draft-' if draft else ''}{name}-{candidate.id[:8]}"


def release_ref(release_id: str) -> str:
    """The git reference that protects a release's commit from garbage collection."""
    return f"refs/ratchet/releases/{release_id}"


@dataclass(frozen=True)
class _Made:
    """The release commit, new or existing."""

    commit: str
    base: str
    files: Mapping[str, tuple[bytes, bytes]]


def _new_commit(
    repository: Repository,
    baseline: Candidate,
    candidate: Candidate,
    declarations: Mapping[str, Declaration],
    decision: Decision,
    experiment_id: str,
    now: float,
) -> _Made:
    base = repository.head()
    patch = make_patch(baseline, candidate, declarations, repository.root)
    message = release_message(baseline, candidate, decision, experiment_id, patch.targets)
    blobs = _blobs(repository, base, patch)
    commit = store_release_commit(repository, base, blobs, message, now)
    return _Made(commit, base, patch.files)


def _check_declared(
    repository: Repository,
    prepared: _Made,
    candidate: Candidate,
    declarations: Mapping[str, Declaration],
    agent_entry: str,
    tests: TestCommand,
) -> str:
    """Import the agent if the patch changes a declared value outside its declaration."""
    elsewhere = {
        target.name: candidate.resources[target.name]
        for target in targets_of(repository, prepared.commit)
        if (target.language or target.format) and declarations[target.name].located_by == "name"
    }
    if not elsewhere:
        return ""
    module = agent_entry.partition(":")[0]
    return check_declared(repository, prepared.commit, prepared.base, module, elsewhere, tests)


def _existing(
    repository: Repository, branch: str, tip: str, baseline: Candidate, candidate: Candidate
) -> _Made:
    if not is_release_of(repository, tip, baseline, candidate):
        raise ShipError(
            f"A branch named {branch} exists with different content (its tip is {tip[:12]}).",
            hint=f"Rename it with `git branch -m {branch} NEW_NAME`, then run this again.",
        )
    base = repository.parents(tip)[0]
    files = {
        path: (repository.content(base, path) or b"", repository.content(tip, path) or b"")
        for path in repository.changed_paths(base, tip)
    }
    return _Made(tip, base, files)


def _blobs(repository: Repository, base: str, patch: Patch) -> dict[str, Blob]:
    blobs: dict[str, Blob] = {}
    for path, (old, new) in patch.files.items():
        committed = repository.blob(base, path)
        if committed is None:
            raise ShipError(
                f"{path} is not in the last commit (it is ignored, or part of a submodule).",
                hint="Commit it first.",
            )
        if repository.store_blob(old, path) != committed.hash:
            raise ShipError(
                f"{path} differs from the last commit, although `git status` does not show it.",
                hint="Check whether it was marked with `git update-index --assume-unchanged`.",
            )
        blobs[path] = Blob(committed.mode, repository.store_blob(new, path))
    return blobs


def _is_written(path: Path, commit: str) -> bool:
    try:
        return f"commit `{commit}`" in path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
