"""Redirects the reading of some files to other content, in this process and for all code in it.

`open`, `io.open` and what is made of them (`Path.read_text`, `Path.open`, `importlib.resources` on
disk, loaders of templates and of YAML) give the other content; `os.open` does not. The opened file
is a real one, without a name on disk: there is nothing to clean up.
"""

from __future__ import annotations

import builtins
import io
import os
from collections.abc import Mapping
from typing import Any, Final

_contents: dict[str, bytes] = {}
_names: set[str] = set()
_original: Final = io.open
_of_rollouts = False


def leave_to_rollouts() -> None:
    """Let only bindings redirect files in this process: it runs rollouts, or reads their source."""
    global _of_rollouts
    _of_rollouts = True


def runs_rollouts() -> bool:
    """Whether `leave_to_rollouts` was called."""
    return _of_rollouts


def redirect_live(contents: Mapping[str, bytes]) -> None:
    """Redirect files to a release's content, unless this process runs rollouts."""
    if not _of_rollouts:
        redirect(contents)


def redirect(contents: Mapping[str, bytes]) -> None:
    """Give these contents to whoever opens these files for reading from now on.

    Args:
        contents: Content by real path. It adds to what was redirected before.
    """
    _contents.update(contents)
    _names.update(os.path.basename(path) for path in contents)
    if _contents:
        io.open = builtins.open = _open


def own_content(path: str | os.PathLike[str]) -> bytes:
    """A file's own content, wherever reading it may be redirected to.

    Raises:
        OSError: It cannot be read.
    """
    with _original(os.open(path, os.O_RDONLY), "rb") as file:
        return file.read()


def restore() -> None:
    """Give every file its own content again."""
    global _of_rollouts
    _of_rollouts = False
    _contents.clear()
    _names.clear()
    io.open = builtins.open = _original


def _open(
    file: Any,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Any = None,
) -> Any:
    content = None if opener is not None else _content_of(file, mode)
    if content is not None:
        data = content

        def opener(path: Any, flags: int) -> int:
            return _anonymous_file(data)

    return _original(file, mode, buffering, encoding, errors, newline, closefd, opener)


def _content_of(file: Any, mode: Any) -> bytes | None:
    """What a file has instead of its own content; None for its own."""
    if not isinstance(mode, str) or not set(mode) <= set("rtbU"):
        return None
    try:
        path = os.fspath(file)
        path = os.fsdecode(path)
        # A link's name may differ from the file's.
        if os.path.basename(path) not in _names and not os.path.islink(path):
            return None
        return _contents.get(os.path.realpath(path))
    except (TypeError, ValueError, OSError):  # a descriptor, or a path that `open` refuses itself
        return None


def _anonymous_file(data: bytes) -> int:
    """A descriptor of a new file without a name, at its beginning."""
    import tempfile

    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        return os.dup(file.fileno())
