"""Temporary copies of a repository with a candidate's patch applied."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from ratchet.source import in_secret_place
from ratchet.source.files import own_files
from ratchet.types.wording import size_text

MAX_BYTES = 256 * 1024 * 1024
"""Maximum size of a repository to copy."""


class Copies:
    """Creates and removes copies of a repository's sources.

    Real copies, not links: code that runs in them may write to their files.

    Args:
        root: The repository.
        leave_out: Files and folders to exclude, such as the task file.
    """

    def __init__(self, root: Path, leave_out: Collection[Path] = ()) -> None:
        self.root = root.resolve()
        self._leave_out = [path.resolve() for path in leave_out]
        self._files: list[Path] | None = None

    @contextlib.contextmanager
    def patched(self, files: Mapping[str, bytes]) -> Iterator[Path]:
        """A copy with the content of these files replaced.

        Args:
            files: Content by path relative to the root.

        Raises:
            OSError: The disk is full.
            ValueError: The repository is too large to copy.
        """
        folder = Path(tempfile.mkdtemp(prefix="ratchet-check-")).resolve()
        try:
            copy = folder / self.root.name
            copy.mkdir()
            for file in self._listed():
                target = copy / file.relative_to(self.root)
                target.parent.mkdir(parents=True, exist_ok=True)
                with contextlib.suppress(FileNotFoundError):  # deleted since it was listed
                    shutil.copy(file, target)
            for relative, content in files.items():
                target = copy / relative
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
            yield copy
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _listed(self) -> list[Path]:
        if self._files is None:
            files = [file for file in own_files(self.root) if self._may(file)]
            size = sum(file.stat().st_size for file in files)
            if size > MAX_BYTES:
                raise ValueError(
                    f"{self.root} has {size_text(size)}; at most {size_text(MAX_BYTES)} are copied"
                )
            self._files = files
        return self._files

    def _may(self, file: Path) -> bool:
        relative = file.relative_to(self.root)
        if in_secret_place(relative):
            return False
        if file.is_symlink() and not file.resolve().is_relative_to(self.root):
            return False
        return file.is_file() and not any(file.is_relative_to(path) for path in self._leave_out)
