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
_SHELL = frozenset({"", "bash", "sh", "shell", "console", "zsh", "text", "txt", "cmd"})
_PROMPT = re.compile(r"^[ \t]*(?:\$|>|%|\u276f|PS>|C:\\>)[ \t]+")
_CHANGES = re.compile(r"(?:^|&&|;)[ \t]*cd[ \t]+([\w./-]+)[ \t]*(?:$|&&|;)")
_FILE = re.compile(r"(?:^|\s)([\w./-]+\.(?:py|[mc]?[jt]s|sh))(?=\s|$)")
_MODULE = re.compile(r"-m\s+([A-Za-z_][\w.]*)|(?:^|\s)([A-Za-z_][\w.]*):\w+(?=\s|$)")
_BESIDE = {
    "package.json": re.compile(r"(?:npm|pnpm|yarn|bun)\s+(?:run\s+\w|start)"),
    "langgraph.json": re.compile(r"\blanggraph\s+(?:dev|up)"),
    "go.mod": re.compile(r"\bgo\s+run\s+\."),
}
"""Files that show in which folder a command works."""


def readme_commands(listing: FileListing) -> Iterator[CommandCandidate]:
    """Lines of shell blocks that start a program, each with the folder where it would work."""
    for path in listing.paths:
        if _README.search(path.rpartition("/")[2]):
            yield from _of_text(listing, path, listing.text(path) or "")


def _of_text(listing: FileListing, path: str, text: str) -> Iterator[CommandCandidate]:
    fence, is_shell, joined, begin = "", False, "", 0
    own = folder_of(path)
    folders = [own]  # the last one that `cd` led to comes first
    for number, line in enumerate(text.splitlines(), 1):
        mark = _FENCE.match(line)
        if mark and (not fence or line.strip().startswith(fence)):
            fence = "" if fence else mark[1]
            is_shell, joined = bool(fence) and mark[2].lower() in _SHELL, ""
            continue
        if not is_shell:
            continue
        begin = begin if joined else number
        joined += _PROMPT.sub("", line).strip()
        if joined.endswith("\\"):
            joined = joined[:-1].rstrip() + " "
            continue
        command, joined = re.sub(r"\s+#\s.*$", "", joined), ""
        for change in _CHANGES.finditer(command):
            folders.insert(0, _changed(listing, folders[0], own, change[1]))
        command = _CHANGES.sub("", command).strip()
        if command and not command.startswith("#") and starts_program(command):
            folder = _home(listing, command, folders)
            yield CommandCandidate(command, folder, Place(path, begin), "README", serves(command))


def _changed(listing: FileListing, folder: str, own: str, name: str) -> str:
    """The folder that `cd NAME` leads to; after `git clone`, the repository itself."""
    for base in (folder, own):
        place = posixpath.normpath(posixpath.join(base, name))
        if not place.startswith("..") and (listing.root / place).is_dir():
            return place
    return own


def _home(listing: FileListing, command: str, folders: list[str]) -> str:
    """The folder that contains what a command names; folders that `cd` led to first."""
    names = [file[1].removeprefix("./") for file in _FILE.finditer(command)]
    for module in _MODULE.finditer(command):
        inner = (module[1] or module[2]).replace(".", "/")
        names += [f"{inner}.py", f"{inner}/__init__.py", f"{inner}/__main__.py"]
    names += [name for name, words in _BESIDE.items() if words.search(command)]
    all_folders = sorted(
        {folder_of(path) for path in listing.paths}, key=lambda name: name.count("/")
    )
    for folder in (*folders, *all_folders) if names else ():
        if listing.folder_has(folder, *names):
            return folder
    return folders[0]
