"""A git remote: list and fetch its branches, and push release branches with the user's own git."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ratchet.sandbox.bounded_run import run_bounded
from ratchet.ship.forges.address import without_credentials
from ratchet.ship.forges.http import OUTAGE_S
from ratchet.ship.repository import Repository, git_environment
from ratchet.types import ForgeUnavailable, ShipError

BRANCHES = "ratchet/"
"""Prefix of the names of all branches that are pushed."""

TIMEOUT_S = 120.0
"""Timeout of a git command that contacts the remote, in seconds."""

_STALLED_S = 30
"""Seconds without progress after which an HTTP transfer is aborted."""

_KEPT_VARIABLES = (
    "GIT_CONFIG",
    "GIT_SSH",
    "GIT_ASKPASS",
    "GIT_SSL_",
    "GIT_PROXY_",
    "GIT_HTTP_",
    "GIT_CREDENTIAL",
)
_AWAY = (
    "could not resolve host",
    "could not resolve proxy",
    "temporary failure in name resolution",
    "connection timed out",
    "operation timed out",
    "operation too slow",
    "connection refused",
    "connection reset",
    "connection closed",
    "failed to connect",
    "couldn't connect",
    "network is unreachable",
    "no route to host",
    "early eof",
    "returned error: 429",
    "returned error: 5",
)
_CREDENTIALS = (
    "could not read username",
    "could not read password",
    "terminal prompts disabled",
    "authentication failed",
    "permission denied (publickey",
    "host key verification failed",
    "returned error: 401",
)
_PERMISSION = (
    "returned error: 403",
    "permission to ",
    "write access to repository not granted",
    "not allowed to push",
    "read-only",
    "deploy key",
)
_RULES = ("protected branch", "pre-receive hook declined", "hook declined", "gh006", "gh013")
_MISSING = (
    "repository not found",
    "returned error: 404",
    "does not appear to be a git repository",
    "does not exist",
    "the project you were looking for could not be found",
)


@dataclass(frozen=True)
class RemoteTips:
    """Branches of a remote."""

    default: str
    """Name of its default branch; empty when it has none."""
    branches: dict[str, str]
    """Full hashes of the tips of all branches that were asked for and exist, by name."""


@dataclass(frozen=True)
class Remote:
    """A remote of a repository."""

    repository: Repository
    name: str

    def url(self) -> str:
        """The URL to push to, which may hold credentials.

        Raises:
            ShipError: There is no such remote.
        """
        remotes = self.repository.text("remote").split()
        if self.name not in remotes:
            listing = f"; it has {', '.join(remotes)}" if remotes else ""
            raise ShipError(
                f"The repository {self.repository.root} has no remote {self.name!r}{listing}.",
                hint="Set remote under [ship]." if remotes else "Add one: git remote add.",
            )
        return self.repository.text("remote", "get-url", "--push", self.name)

    def tips(self, *branches: str) -> RemoteTips:
        """List the remote's branches.

        Raises:
            ForgeUnavailable: It cannot be reached.
            ShipError: It refuses, or does not exist.
        """
        wanted = [f"refs/heads/{branch}" for branch in branches]
        listed = self._git("ls-remote", "--symref", self.name, "HEAD", *wanted)
        default, tips = "", {}
        for line in listed.splitlines():
            value, _, ref = line.partition("\t")
            if ref == "HEAD" and value.startswith("ref: refs/heads/"):
                default = value.removeprefix("ref: refs/heads/")
            elif ref.startswith("refs/heads/"):
                tips[ref.removeprefix("refs/heads/")] = value
        return RemoteTips(default, tips)

    def fetch(self, branch: str) -> str:
        """Fetch a branch without moving any of the user's references; return its tip.

        Raises:
            ForgeUnavailable: The remote cannot be reached.
            ShipError: It refuses, or has no such branch.
        """
        tracking_ref = f"refs/ratchet/remotes/{self.name}/{branch}"
        self._git(
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-recurse-submodules",
            "--no-write-fetch-head",
            "--refmap=",
            self.name,
            f"+refs/heads/{branch}:{tracking_ref}",
        )
        tip = self.repository.commit_of(tracking_ref)
        assert tip is not None
        return tip

    def push(self, commit: str, branch: str, base: str) -> None:
        """Push a commit to a release branch, never by force, and never to the base.

        Raises:
            ForgeUnavailable: The remote cannot be reached.
            ShipError: It refuses, or the branch there has other commits.
        """
        if not branch.startswith(BRANCHES) or branch == base:
            raise ShipError(
                f"Only branches named {BRANCHES}… are pushed, not {branch!r}.",
            )
        self._git(
            "-c",
            "push.followTags=false",
            "push",
            "--quiet",
            "--no-recurse-submodules",
            "--no-signed",
            self.name,
            f"{commit}:refs/heads/{branch}",
        )

    def _git(self, *arguments: str) -> str:
        settings = [
            "core.hooksPath=/dev/null",
            "gc.auto=0",
            "maintenance.auto=false",
            "http.lowSpeedLimit=1",
            f"http.lowSpeedTime={_STALLED_S}",
        ]
        options = [part for setting in settings for part in ("-c", setting)]
        try:
            process = run_bounded(
                ["git", *options, *arguments],
                timeout_s=TIMEOUT_S,
                cwd=self.repository.root,
                env=git_environment(_KEPT_VARIABLES),
            )
        except subprocess.TimeoutExpired:
            raise self._away(f"did not answer within {TIMEOUT_S:.0f} s") from None
        if process.returncode:
            raise self._error(arguments, process.stderr.decode(errors="replace"))
        return process.stdout.decode(errors="surrogateescape")

    def _away(self, what: str) -> ForgeUnavailable:
        return ForgeUnavailable(
            f"The remote {self.name} ({without_credentials(self.url())}) {what}.",
            retry_at=time.time() + OUTAGE_S,
            hint="Nothing is lost. Run the same command again later to continue.",
        )

    def _error(self, arguments: Sequence[str], stderr: str) -> ShipError:
        complaint = without_credentials(" ".join(stderr.split()))[-600:]
        lower = complaint.lower()
        place = f"The remote {self.name} ({without_credentials(self.url())})"
        if any(text in lower for text in _RULES):
            return ShipError(
                f"{place} has rules that refuse the branch: {complaint}",
                hint=f"Allow branches named {BRANCHES}… there.",
            )
        if any(text in lower for text in _CREDENTIALS):
            return ShipError(
                f"{place} does not accept git's credentials: {complaint}",
                hint="Pushing uses your own git: make `git push` work here without a prompt, with "
                "a credential helper or an ssh key.",
            )
        if any(text in lower for text in _PERMISSION):
            return ShipError(
                f"{place} does not let you push: {complaint}", hint="Ask for write access to it."
            )
        if any(text in lower for text in _AWAY):
            return self._away(f"cannot be reached: {complaint}")
        if any(text in lower for text in _MISSING):
            return ShipError(
                f"{place} does not exist, or is hidden from you: {complaint}",
                hint="Check its address: git remote -v.",
            )
        if "[rejected]" in lower or "non-fast-forward" in lower or "fetch first" in lower:
            return ShipError(
                f"{place} has other commits on that branch, so nothing was pushed: {complaint}",
                hint="Nothing is ever pushed by force. Delete the branch there if nobody needs it.",
            )
        verb = next(a for a in arguments if not a.startswith("-") and "=" not in a)
        return ShipError(f"git {verb} failed at {place[4:]}: {complaint}")
