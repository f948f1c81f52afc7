"""Commands in the code blocks of READMEs."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from ratchet.wire.looking.inventory import CommandCandidate, Place
from ratchet.wire.looking.listing import FileListing, folder_of
from ratchet.wire.looking.started import serves, starts_program

_README = re.compile(r"readme[^/]*\.(?:md|rst|txt|mdx)$|readme$", re.IGNORECASE)
_FENCE = re.compile(r"^[ \t>]*(```+|~~~+)[ \t]*([\w+-]*)")
_SHELL = frozenset(
    {"", "bash", "sh", "shell", "console", "zsh", "shellscript", "text", "txt", "cmd", "powershell"}
)
_PROMPT = re.compile(r"^[ \t]*(?:\$|>|%|\u276f|PS>|C:\\>)[ \t]+")
_CHANGES = re.compile(r"(?:^|&&|;)[ \t]*cd[ \t]+([\w./-]+)[ \t]*(?:$|&&|;)")


def readme_commands(listing: FileListing) -> Iterator[CommandCandidate]:
    """Lines of shell blocks that start a program, in the folder that `cd` led to."""
    for path in listing.paths:
        if _README.search(path.rpartition("/")[2]):
            yield from _of_text(listing, path, listing.text(path) or "")


def _of_text(listing: FileListing, path: str, text: str) -> Iterator[CommandCandidate]:
    fence, folder, joined, begin = "", folder_of(path), "", 0
    is_shell = False
    for number, line in enumerate(text.splitlines(), 1):
        mark = _FENCE.match(line)
        if mark and (not fence or line.strip().startswith(fence)):
            fence = "" if fence else mark[1]
            is_shell = bool(fence) and mark[2].lower() in _SHELL
            joined = ""
            continue
        if not is_shell:
            continue
        begin = begin if joined else number
        joined += _PROMPT.sub("", line).strip()
        if joined.endswith("\\"):
            joined = joined[:-1] + " "
            continue
        command, joined = re.sub(r"\s+#\s.*$", "", joined), ""
        for change in _CHANGES.finditer(command):
            folder = _inner(listing, folder, change[1], path)
        command = _CHANGES.sub("", command).strip()
        if command and not command.startswith("#") and starts_program(command):
            yield CommandCandidate(command, folder, Place(path, begin), "README", serves(command))


def _inner(listing: FileListing, folder: str, name: str, path: str) -> str:
    """The folder that `cd NAME` leads to; that of the README where the repository has none.

    `cd my-clone` after `git clone` leads to the repository itself.
    """
    target = posixpath.normpath(posixpath.join(folder, name))
    own = folder_of(path)
    for place in (target, posixpath.normpath(posixpath.join(own, name))):
        if not place.startswith("..") and (listing.root / place).is_dir():
            return place
    return own
