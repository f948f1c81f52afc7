"""One copy of a repository's own files that runs may write into, and that is put back after each.

Copying and deleting many files is what a check spends most time on, so it is done once; what a run
changed is found by the times, sizes and inodes of the files.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from ratchet.source.secret_files import is_secret
from ratchet.wire.checking.scratch import BLOCK
from ratchet.wire.looking.files import RepositoryFiles, is_env_file

_CHUNK = 1 << 20
_Signature = tuple[int, int, int, int]


class OwnFiles:
    """A repository's own files: no secrets, no links that lead out, and nothing that git ignores.

    Args:
        root: The repository; it is only read.
        secret: Paths of files and folders of secrets.
    """

    def __init__(self, root: Path, secret: Iterable[str]) -> None:
        self.root = root.resolve()
        self._inside: dict[str, bool] = {}
        hidden = {one.rstrip("/") for one in secret}
        self.paths: list[str] = []
        self.size = 0
        """Bytes that a copy takes."""
        for path in _own_files(self.root):
            size = None if _is_hidden(path, hidden) else self._size(path)
            if size is not None:
                self.paths.append(path)
                self.size += -(-size // BLOCK) * BLOCK

    def _size(self, path: str) -> int | None:
        """Bytes of a file of the repository itself, also behind its links; None if it is none."""
        above = path.rpartition("/")[0]
        inside = self._inside.get(above)
        if inside is None:
            real = (self.root / above).resolve()
            inside = self._inside[above] = real.is_relative_to(self.root)
        if not inside:
            return None
        whole = self.root / path
        try:
            state = whole.lstat()
            if stat.S_ISLNK(state.st_mode) and whole.resolve().is_relative_to(self.root):
                state = whole.stat()
        except OSError:
            return None
        return state.st_size if stat.S_ISREG(state.st_mode) else None


class TreeCopy:
    """A copy of a repository's own files.

    Args:
        files: The files.
        target: Where the copy is made; it must not exist.
        project: Folder of a project in it, whose installed packages of Node are found, too.
    """

    def __init__(self, files: OwnFiles, target: Path, project: str = "") -> None:
        self._root = files.root
        self._with_packages = dict.fromkeys(("", project))
        self.folder = target
        self._complete = False
        self._made: dict[str, _Signature | None] = {}
        """Signature of each file as it was copied; None where it must be copied again."""
        self._folders: set[str] = {""}
        target.mkdir(parents=True)
        for path in files.paths:
            self._copy(path)
        self._complete = True
        self._link_packages()

    def show(self, contents: Mapping[str, bytes | None]) -> None:
        """Put the copy back as it was made, with other contents for some files.

        Args:
            contents: By path; None for a file that is not there.
        """
        self._put_back()
        for path, data in contents.items():
            whole = self.folder / path
            if path in self._made:
                self._made[path] = None
            if data is None:
                whole.unlink(missing_ok=True)
            else:
                whole.parent.mkdir(parents=True, exist_ok=True)
                whole.write_bytes(data)
        self._link_packages()

    def _link_packages(self) -> None:
        """Let Node find what is installed; git ignores it, so that it is not in the copy."""
        for folder in self._with_packages:
            there, here = (one / folder / "node_modules" for one in (self._root, self.folder))
            if there.is_dir() and here.parent.is_dir() and not here.exists():
                here.symlink_to(there.resolve(), target_is_directory=True)

    def _put_back(self) -> None:
        missing = set(self._made)
        folders = [""]
        while folders:
            above = folders.pop()
            with os.scandir(self.folder / above) as found:
                entries = list(found)
            for one in entries:
                path = f"{above}/{one.name}" if above else one.name
                if one.is_dir(follow_symlinks=False):
                    if path in self._folders:
                        folders.append(path)
                    else:
                        shutil.rmtree(one.path, ignore_errors=True)
                elif path not in self._made:
                    os.unlink(one.path)
                elif self._made[path] == _signature(one.stat(follow_symlinks=False)):
                    missing.discard(path)
        for path in missing:
            self._copy(path)

    def _copy(self, path: str) -> None:
        target = self.folder / path
        above = path.rpartition("/")[0]
        if above not in self._folders or self._complete:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            while above not in self._folders:
                self._folders.add(above)
                above = above.rpartition("/")[0]
        source = self._root / path
        try:
            self._made[path] = _copied(source, target)
        except OSError:  # removed, or not readable: the run says what it lacks
            self._made.pop(path, None)
            target.unlink(missing_ok=True)


def _copied(source: Path, target: Path) -> _Signature:
    """Copy a file with its right to be executed; few system calls, as there may be many files."""
    reading = os.open(source, os.O_RDONLY)
    try:
        mode = 0o755 if os.fstat(reading).st_mode & 0o100 else 0o644
        writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            while data := os.read(reading, _CHUNK):
                while data:
                    data = data[os.write(writing, data) :]
            return _signature(os.fstat(writing))
        finally:
            os.close(writing)
    finally:
        os.close(reading)


def _is_hidden(path: str, hidden: set[str]) -> bool:
    """Whether a file, or a folder that it is in, is one of secrets."""
    if any(is_env_file(part) or is_secret(part) for part in path.split("/")):
        return True
    return any(path == one or path.startswith(f"{one}/") for one in hidden)


def _signature(state: os.stat_result) -> _Signature:
    return state.st_mtime_ns, state.st_ctime_ns, state.st_size, state.st_ino


def _own_files(root: Path) -> list[str]:
    """What git tracks or would; without git, what a look lists."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root,
            capture_output=True,
            check=False,
        )
    except OSError:
        return list(RepositoryFiles(root).paths)
    if listed.returncode:
        return list(RepositoryFiles(root).paths)
    found = listed.stdout.decode(errors="surrogateescape").split("\0")
    return list(dict.fromkeys(filter(None, found)))
