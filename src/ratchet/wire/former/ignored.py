"""The line of `.gitignore` that keeps Ratchet's state out of commits."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from ratchet.wire.changes import Changes, FileChange, Piece

_NAMED = frozenset(
    {".ratchet", ".ratchet/", "/.ratchet", "/.ratchet/", "**/.ratchet", "**/.ratchet/"}
)


def ignored(root: Path, project: str) -> Changes:
    """Ignore `.ratchet/` in the nearest `.gitignore` at or above a project, or in a new one."""
    folder = PurePosixPath(project)
    present = [
        path
        for above in (folder, *folder.parents)
        if (root / (path := above / ".gitignore")).is_file()
    ]
    files = {str(path): (root / path).read_bytes() for path in present}
    for data in files.values():
        if any(line.strip() in _NAMED for line in data.decode(errors="replace").splitlines()):
            return Changes()
    purpose = "Ratchet's state stays on this machine."
    if not files:
        return Changes((FileChange(str(folder / ".gitignore"), purpose, content=".ratchet/\n"),))
    nearest, data = next(iter(files.items()))
    end = "\r\n" if b"\r\n" in data else "\n"
    gap = "" if not data or data.endswith(b"\n") else end
    piece = Piece(len(data), len(data), f"{gap}.ratchet/{end}")
    return Changes((FileChange(nearest, purpose, (piece,)),))
