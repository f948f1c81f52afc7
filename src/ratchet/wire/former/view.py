"""A repository as it would be without its wiring: a temporary copy to look at."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from ratchet.wire.looking.files import RepositoryFiles


@contextlib.contextmanager
def view(root: Path, contents: Mapping[str, bytes | None]) -> Iterator[Path]:
    """A copy of the files that a look reads, with other contents for some; removed at exit.

    Files that hold secrets are there by name, and empty.

    Args:
        root: The repository.
        contents: New bytes by path; None for a file that is left out.
    """
    files = RepositoryFiles(root)
    with tempfile.TemporaryDirectory(prefix="ratchet-view-") as scratch:
        folder = Path(scratch).resolve() / root.name
        folder.mkdir()
        if files.git:
            (folder / ".git").mkdir()
        made: set[Path] = {folder}
        for path in dict.fromkeys((*files.paths, *files.secret, *contents)):
            whole = folder / path
            if path.endswith("/") or (path in contents and contents[path] is None):
                continue
            if whole.parent not in made:
                whole.parent.mkdir(parents=True, exist_ok=True)
                made.add(whole.parent)
            if path in contents:
                whole.write_bytes(contents[path] or b"")
            elif path in files.known:
                _same(files.root / path, whole)
            else:
                whole.touch()
        yield folder


def _same(source: Path, target: Path) -> None:
    """Make a file with the contents of another: by a hard link where that is possible."""
    try:
        os.link(source, target, follow_symlinks=True)
    except OSError:
        with contextlib.suppress(OSError):  # one that cannot be read is not looked at
            shutil.copyfile(source, target)
