"""A user's git repository: read it, and add commits and branches without touching the work tree."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ratchet.types import ShipError

_TIMEOUT_S = 120.0
_UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisect",
}
_KEPT_GIT_VARIABLES = (
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
)


@dataclass(frozen=True)
class Blob:
    """A file of a commit."""

    mode: str
    hash: str


@dataclass(frozen=True)
class Repository:
    """A git work tree that commits can be added to; create it with `Repository.open`."""

    root: Path
    """Top folder of the work tree."""
    prefix: str
    """The opened folder relative to the root, with a trailing slash; or empty."""

    @classmethod
    def open(cls, folder: Path) -> Repository:
        """Find the repository that contains a folder.

        Raises:
            ShipError: There is no git, no repository, no commit yet, no work tree, or it is a
                submodule.
        """
        folder = folder.resolve()
        if not folder.is_dir():
            raise ShipError(f"{folder} is not a folder.")
        probe = cls(folder, "")
        found = probe._run(
            *("rev-parse", "--is-bare-repository", "--is-inside-work-tree", "--show-prefix"),
            "--show-superproject-working-tree",
            ok=(0, 128),
        )
        if found.returncode:
            stderr = found.stderr.decode(errors="replace").strip()
            if not any((above / ".git").exists() for above in (folder, *folder.parents)):
                raise ShipError(
                    f"{folder} is not in a git repository.",
                    hint="Run `git init` there and commit the agent's source.",
                )
            raise ShipError(f"git cannot read {folder}: {stderr}")
        bare, work_tree, paths = os.fsdecode(found.stdout).split("\n", 2)
        if bare == "true" or work_tree != "true":
            raise ShipError(
                f"{folder} is a bare repository or git's own folder: it has no work tree.",
                hint="Run this in a checkout.",
            )
        prefix = paths.removesuffix("\n")  # empty, or a path that ends with a slash
        if prefix and not prefix.endswith("/"):
            raise ShipError(
                f"{folder} is a submodule of another repository.",
                hint="Run this in a separate clone.",
            )
        root = [folder, *folder.parents][prefix.count("/")]
        repository = cls(root, prefix)
        if repository.commit_of("HEAD") is None:
            raise ShipError(
                f"The repository {root} has no commit on its current branch yet.",
                hint="Commit the agent's source first.",
            )
        return repository

    def text(self, *arguments: str) -> str:
        """Run a git command and return its output, stripped.

        Raises:
            ShipError: It failed.
        """
        return self._run(*arguments).stdout.decode(errors="surrogateescape").strip()

    def output(
        self, *arguments: str, stdin: bytes | None = None, ok: Sequence[int] = (0,)
    ) -> bytes:
        """Run a git command and return its output as it is.

        Args:
            arguments: The command.
            stdin: Its input.
            ok: Codes that it may end with.

        Raises:
            ShipError: It ended with another.
        """
        return self._run(*arguments, stdin=stdin, ok=ok).stdout

    def check_idle(self) -> None:
        """Raise ShipError during a merge, rebase, cherry-pick, revert or bisect."""
        git_folder = os.fsdecode(self._run("rev-parse", "--git-dir").stdout.removesuffix(b"\n"))
        for name, what in _UNDER_WAY.items():
            if (self.root / git_folder / name).exists():
                raise ShipError(
                    f"The repository {self.root} is in the middle of {what}.",
                    hint=f"Finish or abort {what} first.",
                )

    def check_clean(self, patched: Collection[Path] = ()) -> None:
        """Raise ShipError if a file that git tracks differs from HEAD.

        Untracked files are in no release, so they only count where a release would patch them; and
        so does a `.env`, which belongs to the machine.

        Args:
            patched: Files that a release may patch.
        """
        needed = {path.resolve() for path in patched}
        dirty = [
            f"{state.strip()} {path}"
            for state, path in self.changes()
            if (state != "??" and PurePosixPath(path).name != ".env") or self.root / path in needed
        ]
        if dirty:
            more = f" and {len(dirty) - 10} more" if len(dirty) > 10 else ""
            files = "1 path differs" if len(dirty) == 1 else f"{len(dirty)} paths differ"
            listed = ", ".join(_printable(path) for path in dirty[:10])
            raise ShipError(
                f"The work tree {self.root} is not clean: {files} from the last commit:"
                f" {listed}{more}.",
                hint="Commit or stash them, then run the same command again. Without a branch at"
                " the end, ratchet improve --no-ship needs no clean tree.",
            )

    def changes(self, paths: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
        """(two-letter state, path) of each file that differs from HEAD in the index or the work
        tree.

        Args:
            paths: Only of these; of all by default.
        """
        pathspec = ["--", *paths] if paths else []
        output = self._run(
            "status", "--porcelain=v1", "-z", "--untracked-files=all", *pathspec
        ).stdout
        entries = iter(os.fsdecode(output).split("\0"))
        for entry in entries:
            if not entry:
                continue
            state, path = entry[:2], entry[3:]
            if "R" in state or "C" in state:
                next(entries, None)  # the original path of a rename
            yield state, path

    def stash(self, paths: Sequence[str], message: str) -> None:
        """Put files back as the index has them; `git stash pop` returns their changes.

        Raises:
            ShipError: git refuses, as during a merge.
        """
        self._run(*self._identity(), "stash", "push", "--quiet", "-m", message, "--", *paths)

    def ignored(self, paths: Sequence[str]) -> list[str]:
        """The given paths, relative to the root, that git ignores."""
        stdin = b"".join(b"./" + os.fsencode(path) + b"\0" for path in paths)
        completed = self._run(
            *("check-ignore", "-z", "--stdin"),
            stdin=stdin,
            ok=(0, 1),
            environment={"GIT_LITERAL_PATHSPECS": "0"},  # which this command refuses
        )
        ignored = os.fsdecode(completed.stdout).split("\0")
        return [path.removeprefix("./") for path in ignored if path]

    def commit_of(self, revision: str) -> str | None:
        """Full hash of the commit that a revision names; None if there is no such commit."""
        completed = self._run(
            "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", ok=(0, 1, 128)
        )
        return completed.stdout.decode().strip() or None

    def head(self) -> str:
        """Full hash of HEAD."""
        return self.text("rev-parse", "HEAD")

    def parents(self, commit: str) -> list[str]:
        """Full hashes of a commit's parents."""
        return self.text("rev-list", "--parents", "-n", "1", commit).split()[1:]

    def first_commit(self) -> str | None:
        """Hash of the root commit of HEAD's first-parent history; None in a shallow clone.

        It is the same in every clone and on every branch, except orphan branches.
        """
        if self.text("rev-parse", "--is-shallow-repository") == "true":
            return None
        return self.text("rev-list", "--first-parent", "--max-parents=0", "HEAD")

    def head_branch(self) -> str | None:
        """The current branch, or None when HEAD is detached."""
        completed = self._run("symbolic-ref", "--quiet", "--short", "HEAD", ok=(0, 1))
        return completed.stdout.decode().strip() or None

    def is_ancestor(self, commit: str, of: str) -> bool:
        """Whether a commit is in the history of another."""
        return self._run("merge-base", "--is-ancestor", commit, of, ok=(0, 1)).returncode == 0

    def merge_base(self, left: str, right: str) -> str:
        """Full hash of the best common ancestor of two commits that have one."""
        return self.text("merge-base", left, right)

    def checked_out_at(self, branch: str) -> Path | None:
        """The work tree in which a branch is checked out; None if there is none."""
        return next(
            (folder for folder, checked_out in self.worktrees() if checked_out == branch), None
        )

    def blob(self, commit: str, path: str) -> Blob | None:
        """A file of a commit; None if the commit does not have it."""
        for entry in self._run("ls-tree", "-z", commit, "--", path).stdout.split(b"\0"):
            meta, _, name = entry.partition(b"\t")
            if os.fsdecode(name) == path:
                mode, kind, hashed = meta.decode().split()
                return Blob(mode, hashed) if kind == "blob" else None
        return None

    def tracked_files(self) -> list[str]:
        """Regular files of the index below the opened folder, relative to it, sorted."""
        listed = os.fsdecode(self._run("ls-files", "-z", "--stage").stdout).split("\0")
        files = set()
        for entry in listed:
            meta, _, path = entry.partition("\t")
            if meta.startswith("100") and path.startswith(self.prefix):
                files.add(path.removeprefix(self.prefix))
        return sorted(files)

    def tracked(self, places: Mapping[str, Path]) -> dict[str, bool]:
        """Those of the places, by name, that git has, and whether each differs from HEAD.

        Args:
            places: Absolute paths of files, and of folders, of which git has those with files.
        """
        listed = os.fsdecode(self._run("ls-files", "-z", "--", *map(str, places.values())).stdout)
        files = [self.root / path for path in listed.split("\0") if path]
        has = {*files, *(folder for file in files for folder in file.parents)}
        changed = {self.root / path for _, path in self.changes([*map(str, places.values())])}
        return {name: place in changed for name, place in places.items() if place in has}

    def content(self, commit: str, path: str) -> bytes | None:
        """Bytes of a file in a commit, as git stores them, or None."""
        blob = self.blob(commit, path)
        return self._run("cat-file", "blob", blob.hash).stdout if blob else None

    def message(self, commit: str) -> str:
        """A commit's message."""
        return self.text("show", "--no-patch", "--format=%B", commit)

    def committed_at(self, commit: str) -> float:
        """Time of a commit in Unix seconds."""
        return float(self.text("show", "--no-patch", "--format=%ct", commit))

    def changed_paths(self, old: str, new: str) -> list[str]:
        """Paths that differ between two commits."""
        output = self._run("diff-tree", "-r", "-z", "--name-only", "--no-renames", old, new).stdout
        return [path for path in os.fsdecode(output).split("\0") if path]

    def store_blob(self, data: bytes, path: str | None, *, write: bool = True) -> str:
        """Store a blob and return its hash; with a path, converted as `git add` would.

        The path selects the user's line-ending conversion and filters. Without `write`, only the
        hash is computed.
        """
        options = ["-w"] if write else []
        options += ["--path", path] if path else ["--no-filters"]
        completed = self._run("hash-object", "--stdin", *options, stdin=data)
        return completed.stdout.decode().strip()

    def store_commit(
        self,
        parent: str,
        blobs: Mapping[str, Blob | None],
        message: str,
        now: float,
        parents: Sequence[str] = (),
    ) -> str:
        """Store a commit that replaces, adds or removes files; no branch and no index moves.

        Args:
            parent: Full hash of the commit whose other files it has.
            blobs: Content by path; None for a file that is removed.
            message: The commit message.
            now: Unix seconds.
            parents: Full hashes of its parents, when they are not `parent` alone.

        Returns:
            Full hash of the commit.
        """
        tree = self.text("rev-parse", f"{parent}^{{tree}}")
        for path, blob in blobs.items():
            tree = self._replaced(tree, path.split("/"), blob)
        dates = {
            "GIT_AUTHOR_DATE": f"@{int(now)} +0000",
            "GIT_COMMITTER_DATE": f"@{int(now)} +0000",
        }
        completed = self._run(
            *self._identity(),
            "commit-tree",
            *(part for ancestor in parents or [parent] for part in ("-p", ancestor)),
            tree,
            stdin=message.encode(),
            environment=dates,
        )
        return completed.stdout.decode().strip()

    def _replaced(self, tree: str, parts: Sequence[str], blob: Blob | None) -> str:
        # Tree by tree instead of through an index: a killed process leaves no temporary file.
        lines: list[bytes] = []
        inner = ""
        for entry in self._run("ls-tree", "-z", tree).stdout.split(b"\0") if tree else ():
            meta, _, name = entry.partition(b"\t")
            if entry and os.fsdecode(name) == parts[0]:
                inner = meta.decode().split()[2]
            elif entry:
                lines.append(entry)
        tree_entry = f"{blob.mode} blob {blob.hash}" if blob else ""
        if len(parts) > 1:
            folder = self._replaced(inner, parts[1:], blob)
            tree_entry = f"040000 tree {folder}" if folder else ""
        if tree_entry:
            lines.append(f"{tree_entry}\t".encode() + os.fsencode(parts[0]))
        if not lines and blob is None:
            return ""  # git has no empty folders
        completed = self._run("mktree", "-z", "--missing", stdin=b"\0".join(lines))
        return completed.stdout.decode().strip()

    def create_branch(self, branch: str, commit: str, keep: str | None = None) -> bool:
        """Create a branch; return False when one of that name exists.

        Args:
            branch: Its name.
            commit: Full hash of its tip.
            keep: A reference to set to the commit in the same transaction, to protect it from
                garbage
                collection when the branch is deleted.

        Raises:
            ShipError: git refuses for another reason.
        """
        orders = f"create refs/heads/{branch} {commit}\n"
        if keep:
            orders += f"update {keep} {commit}\n"
        completed = self._run("update-ref", "--stdin", stdin=orders.encode(), ok=(0, 1, 128))
        if not completed.returncode:
            return True
        if self.commit_of(f"refs/heads/{branch}"):
            return False
        stderr = completed.stderr.decode(errors="replace").strip()
        folder = branch.partition("/")[0]
        raise ShipError(
            f"git cannot create the branch {branch}: {stderr}",
            hint=f"A branch named `{folder}` is in the way of `{folder}/…`; rename it."
            if self.commit_of(f"refs/heads/{folder}")
            else None,
        )

    def switch(self, branch: str, *, detach: bool = False) -> str:
        """Check out a branch, or a detached commit; return git's refusal, or an empty text."""
        how = "--detach" if detach else "--no-guess"
        completed = self._run("switch", "--quiet", how, branch, ok=(0, 1, 128))
        return completed.stderr.decode(errors="replace").strip() if completed.returncode else ""

    def delete_ref(self, name: str, tip: str) -> None:
        """Delete a reference if it still points at `tip`; raise ShipError otherwise."""
        self._run("update-ref", "-d", name, tip)

    def add_worktree(self, folder: Path, commit: str) -> None:
        """Check a commit out into a new folder, detached."""
        self._run("worktree", "add", "--quiet", "--force", "--detach", str(folder), commit)

    def worktrees(self) -> list[tuple[Path, str]]:
        """(folder, checked out branch or an empty string) of every work tree."""
        worktrees: list[tuple[Path, str]] = []
        for line in os.fsdecode(self._run("worktree", "list", "--porcelain").stdout).split("\n"):
            if line.startswith("worktree "):
                worktrees.append((Path(line.removeprefix("worktree ")), ""))
            elif line.startswith("branch refs/heads/") and worktrees:
                worktrees[-1] = (worktrees[-1][0], line.removeprefix("branch refs/heads/"))
        return worktrees

    def prune_worktrees(self) -> None:
        """Remove the records of work trees whose folders are gone."""
        self._run("worktree", "prune", ok=(0, 1, 128))

    def _identity(self) -> list[str]:
        """The user's own git identity, or Ratchet's when none is configured."""
        completed = self._run("var", "GIT_COMMITTER_IDENT", ok=(0, 1, 128), strict_identity=True)
        author = self._run("var", "GIT_AUTHOR_IDENT", ok=(0, 1, 128), strict_identity=True)
        if not completed.returncode and not author.returncode:
            return []
        return ["-c", "user.name=Ratchet", "-c", "user.email=ratchet@localhost"]

    def _run(
        self,
        *arguments: str,
        stdin: bytes | None = None,
        environment: Mapping[str, str] | None = None,
        ok: Sequence[int] = (0,),
        strict_identity: bool = False,
    ) -> subprocess.CompletedProcess[bytes]:
        settings = ["core.hooksPath=/dev/null", "core.fsmonitor=false", "gc.auto=0"]
        settings += ["i18n.commitEncoding=utf-8", "i18n.logOutputEncoding=utf-8"]
        if strict_identity:
            settings.append("user.useConfigOnly=true")
        options = [part for setting in settings for part in ("-c", setting)]
        command = ["git", *options, *arguments]
        try:
            completed = subprocess.run(
                command,
                cwd=self.root,
                input=stdin if stdin is not None else b"",
                capture_output=True,
                timeout=_TIMEOUT_S,
                env={**git_environment(), **(environment or {})},
                check=False,
            )
        except FileNotFoundError:
            raise ShipError(
                "git is not installed, or is not on PATH.", hint="Install git and run this again."
            ) from None
        except subprocess.TimeoutExpired:
            raise ShipError(
                f"git {_verb(arguments)} in {self.root} took longer than {_TIMEOUT_S:.0f} s.",
                hint="Check whether another process is using the repository.",
            ) from None
        if completed.returncode not in ok:
            stderr = completed.stderr.decode(errors="replace").strip()
            raise ShipError(f"git {_verb(arguments)} failed in {self.root}: {stderr}")
        return completed


def check_clean(repo: Path, patched: Collection[Path] = ()) -> None:
    """Check that a release could be made from this folder's repository.

    Args:
        repo: A folder of the repository.
        patched: Files that a release may patch: git has to track them.

    Raises:
        ShipError: There is no usable repository, a merge or the like is in progress, or a file that
            git tracks differs from the last commit; the message names the cause.
    """
    repository = Repository.open(repo)
    repository.check_idle()
    repository.check_clean(patched)


def _verb(arguments: Sequence[str]) -> str:
    return next((a for a in arguments if not a.startswith("-") and "=" not in a), "")


def git_environment(kept_prefixes: Sequence[str] = _KEPT_GIT_VARIABLES) -> dict[str, str]:
    """This process's environment without git's variables, except some."""
    # Variables such as GIT_DIR, set when Ratchet runs in a git hook, would redirect every command.
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name.startswith(tuple(kept_prefixes))
    }
    fixed = {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_EDITOR": "true",
        "GIT_LITERAL_PATHSPECS": "1",
        "LC_ALL": "C",
    }
    return {**inherited, **fixed}


def _printable(path: str) -> str:
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")
