"""Open or update the pull request of a release, and read back its state."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ratchet.ship.check import NO_TESTS, TestCommand
from ratchet.ship.commit import targets_of
from ratchet.ship.forges.branch import RequestBranch, evidence_file
from ratchet.ship.forges.marker import RequestMarker, marked, marker_of, rewritten
from ratchet.ship.forges.record import Forge, RequestDraft, RequestRecord
from ratchet.ship.forges.settings import ForgePlace, ForgeSettings, connect, place_of
from ratchet.ship.live_proof import LiveProof, with_live_proofs
from ratchet.ship.patch import diff_files
from ratchet.ship.pull_request import request_text, shown_path
from ratchet.ship.remote import BRANCHES, Remote
from ratchet.ship.repository import Repository
from ratchet.ship.rollback import UNMERGED, rollback
from ratchet.types import (
    ConfigError,
    Conflict,
    ForgeUnavailable,
    PullRequest,
    PullRequestState,
    Release,
    ReleaseState,
    ShipError,
)

FULL_S = 3600.0
"""Seconds to wait before another try while the maximum number of pull requests is open."""

_STATES: dict[PullRequestState, ReleaseState] = {
    "open": "proposed",
    "merged": "merged",
    "closed": "closed",
}


@dataclass(frozen=True, kw_only=True)
class RequestPreview:
    """What `propose` would push and send, prepared without any connection."""

    remote: str
    branch: str
    commit: str
    url: str
    body: dict[str, object]
    """Body of the request to the forge's API."""
    title: str
    text: str
    diff: str
    obstacle: str = ""
    """Why it cannot be sent with the current settings, in which case URL and body are empty."""


def propose(
    release: Release,
    repo: Path,
    settings: ForgeSettings | None = None,
    *,
    tests: TestCommand = NO_TESTS,
    environ: Mapping[str, str] | None = None,
    live: Sequence[LiveProof] = (),
) -> PullRequest:
    """Push a release's branch and open its pull request, or update both.

    Every step is found again when it was done before, so a call that was killed or refused is
    simply repeated; one that finds nothing to change writes nothing. A request that a person has
    closed is not opened again, and a branch that has a person's commits is left as it is; the
    result's `note` says so. Another open request for the same resource is closed with a comment.

    Args:
        release: A release with a branch.
        repo: Folder of the repository.
        settings: Where and how requests are opened.
        tests: The repository's own tests, for a base that moved into the way of the change.
        environ: Where the token is; by default this process's environment.
        live: The stages on live traffic that the candidate went through, oldest first.

    Returns:
        The request, for `with_request`.

    Raises:
        ForgeUnavailable: The remote or the forge cannot be reached, limits requests, or has as many
            open ones as allowed; its `retry_at` says when to call again.
        ConfigError: The forge or its token is not known.
        ShipError: The forge or the remote refuses, or the base moved and the change does not fit.
    """
    settings = settings or ForgeSettings()
    if release.state not in UNMERGED:
        raise Conflict(
            f"Release {release.id[:12]} is {release.state}: there is nothing to propose."
        )
    files = _evidence_files(release, settings, live)
    repository = Repository.open(repo)
    title, text = _text(release, live, files, repository.root)
    if repository.commit_of(release.commit) is None:
        raise ShipError(
            f"The commit {release.commit[:12]} of release {release.id[:12]} is not in "
            f"{repository.root}.",
            hint="Run this in the repository that it was made in.",
        )
    remote = Remote(repository, settings.remote)
    forge = connect(place_of(remote.url(), settings), settings, environ)
    resources = tuple(target.name for target in targets_of(repository, release.commit))

    records = [record for record in forge.of_branch(release.branch) if _concerns(record, release)]
    if records and records[0].state != "open":
        return _ended(records[0])
    tips = remote.tips(release.branch, *filter(None, [settings.base]))
    base = _base(remote, tips.default, settings)
    branch = RequestBranch(repository, release)
    pushed = remote.fetch(release.branch) if release.branch in tips.branches else ""
    if pushed and not branch.is_own(pushed):
        if records:
            note = "its branch has commits that Ratchet did not make, so it is left unchanged"
            return _request(records[0], note=note)
        raise ShipError(
            f"The branch {release.branch} of the remote {settings.remote} has other commits.",
            hint="Nothing is ever pushed by force. Delete it there, or open the pull request by"
            " hand.",
        )
    rivals = _rivals(forge, release, resources, settings, opening=not records)
    if release.draft:
        rivals = []  # what was not proved takes the place of nothing

    head = _head(branch, remote, pushed, base, files, tests)
    if head != pushed:
        if pushed and forge.is_protected(release.branch):
            raise ShipError(
                f"The branch {release.branch} of {forge.repository} is protected, so nothing is "
                "pushed to it.",
                hint=f"Exempt branches named {BRANCHES}… from the rule that protects them.",
            )
        remote.push(head, release.branch, base)
    block = marked(
        text,
        RequestMarker(
            release=release.id,
            candidate=release.candidate_id,
            resources=resources,
            base=release.base,
            head=head,
        ),
    )
    draft = _draft(release.branch, base, title, block, settings, only_as_draft=release.draft)
    record = records[0] if records else forge.open(draft)
    notes: list[str] = []
    body = rewritten(record.body, block)
    if body is not None:
        forge.edit(record.number, body)
    if release.request is None:
        forge.tag(record, settings.labels)
        notes.append(forge.ask(record.number, settings.reviewers))
    for rival in rivals:
        _supersede(forge, rival, record)
    return _request(record, head=head, note=" ".join(filter(None, notes)))


def preview(
    release: Release,
    repo: Path,
    settings: ForgeSettings | None = None,
    *,
    live: Sequence[LiveProof] = (),
) -> RequestPreview:
    """What `propose` would push and send if there were no request yet; makes no connection.

    Raises:
        ShipError: The text is gone.
    """
    settings = settings or ForgeSettings()
    repository = Repository.open(repo)
    files = _evidence_files(release, settings, live)
    title, text = _text(release, live, files, repository.root)
    marker = RequestMarker(
        release=release.id,
        candidate=release.candidate_id,
        resources=tuple(target.name for target in targets_of(repository, release.commit)),
        base=release.base,
        head=release.commit,
    )
    draft = _draft(
        release.branch,
        settings.base or "(the default branch)",
        title,
        marked(text, marker),
        settings,
        only_as_draft=release.draft,
    )
    obstacle = ""
    try:
        place: ForgePlace = place_of(Remote(repository, settings.remote).url(), settings)
        url, body = place.opening(draft)
    except (ConfigError, ShipError) as error:
        url, body, obstacle = "", {}, str(error)
    changed = {
        path: (
            repository.content(release.base, path) or b"",
            repository.content(release.commit, path) or b"",
        )
        for path in repository.changed_paths(release.base, release.commit)
    }
    return RequestPreview(
        remote=settings.remote,
        branch=release.branch,
        commit=release.commit,
        url=url,
        body=body,
        title=title,
        text=text,
        diff=diff_files(changed),
        obstacle=obstacle,
    )


def read(
    request: PullRequest,
    repo: Path,
    settings: ForgeSettings | None = None,
    *,
    environ: Mapping[str, str] | None = None,
) -> PullRequest:
    """Read a request again from the forge.

    Raises:
        ForgeUnavailable: As for `propose`.
        ShipError: As for `propose`.
    """
    settings = settings or ForgeSettings()
    remote = Remote(Repository.open(repo), settings.remote)
    forge = connect(place_of(remote.url(), settings), settings, environ)
    record = forge.read(request.number)
    note = request.note if record.state == request.state else ""
    return _request(record, head=record.head or request.head, note=note)


def refresh_request(
    release: Release,
    repo: Path,
    settings: ForgeSettings | None = None,
    *,
    environ: Mapping[str, str] | None = None,
) -> Release:
    """Update a release from its pull request, and from the pull request that reverts it.

    Returns:
        The release; the same object when nothing changed or nothing is open.

    Raises:
        ForgeUnavailable: As for `propose`.
        ShipError: As for `propose`.
    """
    now = release
    if release.request is not None and release.state == "proposed":
        now = with_request(release, read(release.request, repo, settings, environ=environ))
    if release.revert is not None and release.revert.state == "open":
        revert = read(release.revert, repo, settings, environ=environ)
        now = msgspec.structs.replace(now, revert=revert)
    return release if now == release else now


def with_request(release: Release, request: PullRequest) -> Release:
    """The release with its request, in the state that the request implies."""
    state = _STATES[request.state] if release.state in UNMERGED else release.state
    return msgspec.structs.replace(release, request=request, state=state)


def withdraw(
    release: Release,
    repo: Path,
    reason: str,
    settings: ForgeSettings | None = None,
    *,
    environ: Mapping[str, str] | None = None,
) -> Release:
    """Close a release's open request with a comment.

    Raises:
        ForgeUnavailable: As for `propose`.
        ShipError: As for `propose`.
    """
    if release.request is None or release.request.state != "open":
        return release
    settings = settings or ForgeSettings()
    remote = Remote(Repository.open(repo), settings.remote)
    forge = connect(place_of(remote.url(), settings), settings, environ)
    key = f"<!-- ratchet:withdrawn {release.id[:12]} -->"
    forge.close(release.request.number, f"{reason}\n\n{key}", key)
    closed = msgspec.structs.replace(release.request, state="closed", note=reason)
    return msgspec.structs.replace(release, request=closed)


def open_revert(
    release: Release,
    repo: Path,
    reason: str,
    settings: ForgeSettings | None = None,
    *,
    tests: TestCommand = NO_TESTS,
    environ: Mapping[str, str] | None = None,
    now: float | None = None,
) -> Release:
    """Push the branch that reverts a merged release, and open its pull request.

    The branch starts from the remote's base, not from the local HEAD. Like `propose`, it may be
    repeated after a failure: pass the release as it was then, or as it is now.

    Args:
        release: A merged release, or one that was rolled back by a branch.
        repo: Folder of the repository.
        reason: Why, as Markdown; it becomes the request's text.
        settings: As for `propose`.
        tests: As for `rollback`.
        environ: As for `propose`.
        now: Unix seconds, the time of the commit; by default the present.

    Returns:
        The release, rolled back, with the request as `revert`.

    Raises:
        Conflict: It is not merged, or was rolled back by hand.
        ForgeUnavailable: As for `propose`.
        ShipError: As for `propose` and `rollback`.
    """
    settings = settings or ForgeSettings()
    repository = Repository.open(repo)
    remote = Remote(repository, settings.remote)
    forge = connect(place_of(remote.url(), settings), settings, environ)
    base = _base(remote, remote.tips(*filter(None, [settings.base])).default, settings)
    if release.state == "merged":
        tip = remote.fetch(base)
        release = rollback(release, repo, now or time.time(), tests=tests, onto=tip)
    if not release.rollback.startswith(BRANCHES):
        raise Conflict(f"Release {release.id[:12]} is {release.state}: there is nothing to revert.")
    commit = repository.commit_of(f"refs/heads/{release.rollback}")
    records = forge.of_branch(release.rollback)
    if records and records[0].state != "open":
        return msgspec.structs.replace(release, revert=_ended(records[0]))
    pushed = remote.tips(release.rollback).branches.get(release.rollback)
    if commit is None:
        raise ShipError(
            f"The branch {release.rollback} no longer exists.",
            hint=f"Revert the commit by hand: git revert {release.commit[:12]}",
        )
    if pushed is None:
        remote.push(commit, release.rollback, base)
    resources = tuple(target.name for target in targets_of(repository, release.commit))
    marker = RequestMarker(
        release=release.id,
        candidate=release.baseline_id,
        resources=resources,
        base=repository.parents(commit)[0],
        head=commit,
    )
    title = f"Roll back {', '.join(resources)} (release {release.id[:12]})"
    draft = _draft(release.rollback, base, title[:200], marked(reason, marker), settings)
    record = records[0] if records else forge.open(draft)
    if release.revert is None:
        forge.tag(record, settings.labels)
    return msgspec.structs.replace(release, revert=_request(record, head=commit))


def _text(
    release: Release, live: Sequence[LiveProof], files: Mapping[str, Path], root: Path
) -> tuple[str, str]:
    """Title and text of the request; `files` are the evidence files in its branch."""
    try:
        text = Path(release.pull_request).read_text(encoding="utf-8")
    except OSError as error:
        raise ShipError(
            f"The text of the pull request, {release.pull_request}, cannot be read:"
            f" {error.strerror}.",
            hint="`ratchet improve` writes it again.",
        ) from None
    committed = {file: path for path, file in files.items()}
    paths = dict.fromkeys(
        committed.get(proof.evidence) or shown_path(proof.evidence, root) for proof in live
    )
    commands = [f"ratchet verify {shlex.quote(path)}" for path in paths]
    return request_text(with_live_proofs(text, live, commands))


def _evidence_files(
    release: Release, settings: ForgeSettings, live: Sequence[LiveProof]
) -> dict[str, Path]:
    """The evidence files that belong in the branch, by their paths in the repository."""
    if not settings.evidence:
        return {}
    files = {evidence_file(release.experiment_id): Path(release.evidence)}
    for proof in live:
        files[evidence_file(release.experiment_id, proof.decision.stage)] = proof.evidence
    return files


def _concerns(record: RequestRecord, release: Release) -> bool:
    """Whether a pull request of the release's branch is for this release.

    The same candidate has the same branch. A request that was closed is a no to it; one that was
    merged may be of an earlier release that was taken back since.
    """
    marker = marker_of(record.body)
    return record.state != "merged" or marker is None or marker.release == release.id


def _base(remote: Remote, default: str, settings: ForgeSettings) -> str:
    base = settings.base or default
    if not base:
        raise ShipError(
            f"The remote {settings.remote} has no default branch.", hint="Set base under [ship]."
        )
    return base


def _head(
    branch: RequestBranch,
    remote: Remote,
    pushed: str,
    base: str,
    files: Mapping[str, Path],
    tests: TestCommand,
) -> str:
    """The commit that should be the branch's tip; `pushed` if it already is."""
    repository, release = branch.repository, branch.release
    tip = remote.fetch(base)
    if repository.is_ancestor(release.commit, tip):
        raise ShipError(
            f"{base} of the remote {remote.name} already has the release.",
            hint="Run git fetch; `ratchet releases` then shows the release as merged.",
        )
    if not repository.is_ancestor(release.base, tip):
        raise ShipError(
            f"The release was made on commit {release.base[:12]}, which is not in {base} of the"
            f" remote {remote.name}: the pull request would also contain your other commits.",
            hint=f"Push that commit to {base} first, or set base under [ship].",
        )
    head = pushed or release.commit
    if branch.conflicts(head, tip):
        head = branch.with_base(head, tip, tests)
    return branch.with_evidence(head, files)


def _rivals(
    forge: Forge,
    release: Release,
    resources: Sequence[str],
    settings: ForgeSettings,
    opening: bool,
) -> list[RequestRecord]:
    """Open requests of other releases for the same resources, which this one replaces.

    Raises:
        ForgeUnavailable: As many requests for other resources are open as may be.
        ShipError: One for the same resource has a person's commits.
    """
    rivals: list[RequestRecord] = []
    unrelated = 0
    for record in forge.opened():
        marker = marker_of(record.body)
        if record.branch == release.branch or not record.branch.startswith(BRANCHES) or not marker:
            continue
        if not set(marker.resources) & set(resources):
            unrelated += 1
        elif record.head == marker.head:
            rivals.append(record)
        elif opening:
            raise ShipError(
                f"{record.url} is open for the same resource, and has commits not by Ratchet.",
                hint="Merge or close it first.",
            )
    if opening and unrelated >= settings.max_open:
        raise ForgeUnavailable(
            f"{unrelated} pull requests are open in {forge.repository}, the maximum set by "
            "max_open under [ship].",
            retry_at=time.time() + FULL_S,
            hint="Merge or close one, then run the same command again.",
        )
    return rivals


def _supersede(forge: Forge, rival: RequestRecord, by: RequestRecord) -> None:
    key = f"<!-- ratchet:superseded {by.number} -->"
    text = f"Superseded by {by.url}, which changes the same resource and was proved later."
    forge.close(rival.number, f"{text}\n\n{key}", key)


def _draft(
    branch: str,
    base: str,
    title: str,
    body: str,
    settings: ForgeSettings,
    *,
    only_as_draft: bool = False,
) -> RequestDraft:
    return RequestDraft(
        branch=branch,
        base=base,
        title=title,
        body=body,
        draft=settings.draft or only_as_draft,
        only_as_draft=only_as_draft,
    )


def _ended(record: RequestRecord) -> PullRequest:
    closed = "it was closed without a merge, which counts as a refusal, so it is not opened again"
    return _request(record, note=closed if record.state == "closed" else "")


def _request(record: RequestRecord, head: str = "", note: str = "") -> PullRequest:
    return PullRequest(
        url=record.url,
        number=record.number,
        state=record.state,
        head=head or record.head,
        note=note,
    )
