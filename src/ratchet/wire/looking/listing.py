"""The files of a repository that the inventory may read: its own, except secrets."""

from __future__ import annotations

import os
import tokenize
from collections import Counter
from pathlib import Path, PurePosixPath

from ratchet.source import SourceTree
from ratchet.source.files import SKIPPED, own_files, why_skipped
from ratchet.source.secret_files import in_secret_place, secret_files
from ratchet.types import InputError
from ratchet.wire.looking.inventory import LanguageShare

MAX_BYTES = 2_000_000
"""Maximum size of a file that is read, in bytes."""
MAX_FILES = 500_000

_LANGUAGES = {
    "py": "Python",
    "ipynb": "Notebook",
    **dict.fromkeys(("ts", "tsx", "mts", "cts"), "TypeScript"),
    **dict.fromkeys(("js", "jsx", "mjs", "cjs"), "JavaScript"),
    "go": "Go",
    "rs": "Rust",
    "java": "Java",
    **dict.fromkeys(("c", "h", "cc", "cpp", "hpp"), "C and C++"),
    **dict.fromkeys(("sh", "bash"), "Shell"),
}


class FileListing:
    """The files of a folder.

    Args:
        root: The folder.

    Raises:
        InputError: It is not a folder, or has too many files.
    """

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise InputError(f"{root} is not a folder.", hint="Name the folder of a repository.")
        self.root = root.resolve()
        self._skipped: dict[str, bool] = {"": False}
        self.passed_over: dict[str, str] = {}
        """Why a file was not read, by the file's path."""
        listed = own_files(self.root)
        if len(listed) > MAX_FILES:
            raise InputError(
                f"{self.root} has more than {MAX_FILES:,} files.",
                hint="Name the folder of a project in it.",
            )
        self.paths = [path for file in listed if (path := self._own(file))]
        """Relative, with forward slashes, sorted."""
        self.known = frozenset(self.paths)
        self.secret = [file.relative_to(self.root).as_posix() for file in secret_files(self.root)]
        """Files and folders that are listed but not opened."""
        self.secret = [path for path in self.secret if path not in (".git", ".ratchet")]
        self._texts: dict[str, str | None] = {}
        self._trees: dict[str, SourceTree] = {}
        self.imports: dict[str, dict[str, int]] = {}
        """The imports of the files that were read."""

    @property
    def git(self) -> bool:
        """Whether the folder is, or lies in, a git repository."""
        return any((folder / ".git").exists() for folder in (self.root, *self.root.parents))

    def _own(self, file: Path) -> str:
        path = file.relative_to(self.root)
        if in_secret_place(path) or self._is_skipped(path.parent.as_posix().removeprefix(".")):
            return ""
        if file.is_symlink() and not file.resolve().is_relative_to(self.root):
            self.passed_over[path.as_posix()] = "it is a link to a place outside the repository"
            return ""
        return path.as_posix()

    def _is_skipped(self, folder: str) -> bool:
        if folder not in self._skipped:
            above, _, name = folder.rpartition("/")
            skipped = name in SKIPPED and bool(why_skipped(os.path.join(self.root, above), name))
            self._skipped[folder] = skipped or self._is_skipped(above)
        return self._skipped[folder]

    def text(self, path: str) -> str | None:
        """Text of a file; None if it cannot be read, with the reason in `passed_over`."""
        if path not in self._texts:
            self._texts[path] = self._read(path) if path in self.known else None
        return self._texts[path]

    def _read(self, path: str) -> str | None:
        file = self.root / path
        try:
            if file.stat().st_size > MAX_BYTES:
                self.passed_over[path] = f"it is larger than {MAX_BYTES // 1_000_000} MB"
                return None
            encoding = "utf-8-sig"
            if path.endswith(".py"):
                with open(file, "rb") as opened:
                    encoding, _ = tokenize.detect_encoding(opened.readline)
            return file.read_bytes().decode(encoding)
        except (OSError, SyntaxError, LookupError):
            self.passed_over[path] = "it cannot be read"
        except UnicodeDecodeError:
            self.passed_over[path] = "it is not text"
        return None

    def head(self, path: str, size: int) -> tuple[str, bool]:
        """Text of a file's first bytes, and whether that is the whole file; empty if it cannot be
        read."""
        try:
            with open(self.root / path, "rb") as opened:
                data = opened.read(size + 1)
        except OSError:
            self.passed_over[path] = "it cannot be read"
            return "", True
        return data[:size].decode("utf-8-sig", errors="replace"), len(data) <= size

    def tree(self, folder: str) -> SourceTree:
        """The folders that a folder's files import from: itself, those above it, and `src`."""
        if folder not in self._trees:
            above = PurePosixPath(folder)
            places = [str(path) for path in (above, *above.parents)]
            self._trees[folder] = SourceTree(self.root, [*places, "src"])
        return self._trees[folder]

    def languages(self) -> tuple[LanguageShare, ...]:
        """Languages, by number of files."""
        endings = (path.rpartition(".")[2].lower() for path in self.paths)
        counts = Counter(_LANGUAGES[ending] for ending in endings if ending in _LANGUAGES)
        return tuple(LanguageShare(name, files) for name, files in counts.most_common())

    def named(self, *names: str) -> list[str]:
        """Files with these names, at any depth, outermost first."""
        matches = [path for path in self.paths if path.rpartition("/")[2] in names]
        return sorted(matches, key=lambda path: (path.count("/"), path))

    def folder_has(self, folder: str, *names: str) -> bool:
        """Whether one of these files is in a folder; `.` is the repository."""
        prefix = "" if folder == "." else f"{folder}/"
        return any(prefix + name in self.known for name in names)


def folder_of(path: str) -> str:
    """The folder of a path; `.` for the repository."""
    return path.rpartition("/")[0] or "."


def line_at(text: str, position: int) -> int:
    """The line number of a position, from 1."""
    return text.count("\n", 0, position) + 1
