"""What a recorded run did beyond its own process: hosts, files, programs."""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

import msgspec

from ratchet.run.model_relay import Exchange
from ratchet.sandbox.acts import Act
from ratchet.source.files import SKIPPED
from ratchet.source.secret_files import is_hidden_in_home
from ratchet.wire.recording.journals import Journals
from ratchet.wire.recording.model_calls import is_loopback
from ratchet.wire.recording.recording import (
    Change,
    Contact,
    FileWrite,
    Place,
    Program,
)

Listing: TypeAlias = Mapping[str, tuple[int, int]]
"""Size and modification time of a project's files, by path."""

MAX_FILES = 50_000

_CACHES = re.compile(
    r"(?:^|/)(?:__pycache__|\.pytest_cache|\.mypy_cache|\.ruff_cache|\.git)(?:/|$)|\.pyc(?:\.\d+)?$"
)
_DEVICES = ("/dev/", "/proc/", "/sys/")


class Outside(msgspec.Struct, frozen=True, kw_only=True):
    """The acts of a recorded run, each once."""

    contacts: tuple[Contact, ...]
    writes: tuple[FileWrite, ...]
    programs: tuple[Program, ...]
    data_files_read: tuple[str, ...]
    settings_read: tuple[str, ...]


def listing(root: Path) -> Listing:
    """The files of a project; of installed packages and the repository's data the folder alone."""
    files: dict[str, tuple[int, int]] = {}
    for folder, folders, names in os.walk(root):
        for name in [*folders]:
            path = os.path.join(folder, name)
            if name in {*SKIPPED, ".git"} or os.path.exists(os.path.join(path, "pyvenv.cfg")):
                folders.remove(name)
                files[path] = (0, 0)
        for name in names:
            path = os.path.join(folder, name)
            try:
                stat = os.stat(path)
            except OSError:
                continue
            files[path] = (stat.st_size, stat.st_mtime_ns)
        if len(files) > MAX_FILES:
            break
    return files


def outside(
    journals: Journals,
    acts: Sequence[Act],
    passed_on: Sequence[Exchange],
    *,
    root: Path,
    home: Path,
    hidden: Sequence[Path],
    before: Listing,
    after: Listing,
    contained: bool,
    own_ports: Iterable[int],
) -> Outside:
    """Acts seen by the hooks, in system calls, and by comparing lists of the project's files.

    Args:
        journals: What the hooks wrote.
        acts: What the watcher of system calls saw; empty if it is blind.
        passed_on: What the relay passed on and was no model call.
        root: The repository's folder.
        home: The owner's home folder.
        hidden: Folders of the recording itself.
        before: The project's files before.
        after: The project's files afterwards.
        contained: Whether it wrote to copies, so that only hooks saw what it wrote.
        own_ports: Ports of loopback that belong to the recording.
    """
    writes = _Writes(root, home, hidden, before, after, contained)
    for act in acts:
        if act.kind in ("write", "delete"):
            writes.add(act.subject, "deleted" if act.kind == "delete" else "changed")
    for event in journals.of("write"):
        writes.add(event["path"], event["how"])
    read = dict.fromkeys(Path(event["path"]) for event in journals.of("read"))
    project, own = root.resolve(), home.resolve()
    for path in before.keys() | after.keys():
        if before.get(path) != after.get(path):
            writes.add(path, "deleted" if path not in after else "changed")
    return Outside(
        contacts=_contacts(journals, acts, passed_on, frozenset(own_ports)),
        writes=writes.all(),
        programs=_programs(journals, acts),
        data_files_read=tuple(
            path.relative_to(project).as_posix() for path in read if path.is_relative_to(project)
        ),
        settings_read=tuple(
            f"~/{path.relative_to(own).as_posix()}"
            for path in read
            if path.is_relative_to(own)
            and is_hidden_in_home(f"~/{path.relative_to(own).as_posix()}")
        ),
    )


class _Writes:
    """Files that were written, the last change of each."""

    def __init__(
        self,
        root: Path,
        home: Path,
        hidden: Sequence[Path],
        before: Listing,
        after: Listing,
        contained: bool,
    ) -> None:
        self._contained = contained
        self._root, self._home = root, home
        self._hidden = [str(folder) for folder in hidden]
        self._before, self._after = before, after
        self._changes: dict[str, list[Change]] = {}

    def add(self, path: str, how: Change) -> None:
        hidden = any(path == own or path.startswith(own + os.sep) for own in self._hidden)
        if hidden or path.startswith(_DEVICES) or _CACHES.search(path):
            return
        self._changes.setdefault(path, []).append(how)

    def all(self) -> tuple[FileWrite, ...]:
        writes = []
        for path, changes in self._changes.items():
            how = self._change(path, changes)
            place, shown_path = self._place(path)
            # A scratch file that came and went is no trace of the run.
            if how is not None and not os.path.isdir(path):
                writes.append(FileWrite(path=shown_path, place=place, how=how))
        return tuple(writes)

    def _change(self, path: str, changes: Sequence[Change]) -> Change | None:
        if self._contained and changes[-1] != "deleted":
            return "changed" if os.path.exists(path) else "created"
        if not self._contained and (path in self._after or os.path.exists(path)):
            inside = path in self._after
            if inside and self._before.get(path) == self._after[path]:
                return None  # opened to be written, as a database is, and left as it was
            new = path not in self._before if inside else "created" in changes
            folders = self._after.keys() - self._before.keys()
            in_new = not inside and any(str(folder) in folders for folder in Path(path).parents)
            return "created" if new or in_new else "changed"
        return "deleted" if path in self._before or changes[0] == "deleted" else None

    def _place(self, path: str) -> tuple[Place, str]:
        absolute = Path(path)
        temporary = (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm")  # noqa: S108
        if absolute.is_relative_to(self._root):
            return "project", absolute.relative_to(self._root).as_posix()
        inner = [folder for folder in temporary if absolute.is_relative_to(folder)]
        # Either may lie in the other.
        if absolute.is_relative_to(self._home) and not any(
            Path(folder).is_relative_to(self._home) for folder in inner
        ):
            return "home", f"~/{absolute.relative_to(self._home).as_posix()}"
        return ("temp" if inner else "elsewhere"), path


def _contacts(
    journals: Journals,
    acts: Sequence[Act],
    passed_on: Sequence[Exchange],
    own_ports: frozenset[int],
) -> tuple[Contact, ...]:
    counts: Counter[tuple[str, int]] = Counter()
    for act in acts:
        if act.kind == "connect":
            counts[_host(act.subject), act.port] += act.count
    requests: dict[tuple[str, int], Counter[str]] = {}
    for event in journals.of("request"):
        line = f"{event['method']} {event['path'] or '/'}"
        requests.setdefault((_host(event["host"]), event["port"]), Counter())[line] += 1
    for exchange in passed_on:
        place = urlsplit(exchange.request.url)
        port = place.port or (443 if place.scheme == "https" else 80)
        line = f"{exchange.request.method} {exchange.request.path.partition('?')[0]}"
        requests.setdefault((_host(place.hostname or ""), port), Counter())[line] += 1
    if not counts:
        counts.update((_host(event["host"]), event["port"]) for event in journals.of("connect"))
    for address, lines in requests.items():
        counts[address] = counts[address] or sum(lines.values())
    return tuple(
        Contact(host=host, port=port, count=count, requests=dict(requests.get((host, port), {})))
        for (host, port), count in sorted(counts.items())
        if not (host == "localhost" and port in own_ports) and port
    )


def _host(name: str) -> str:
    """A host's name; all names of this machine become the same."""
    return "localhost" if is_loopback(name) else name


def _programs(journals: Journals, acts: Sequence[Act]) -> tuple[Program, ...]:
    counts: Counter[str] = Counter()
    for act in acts:
        if act.kind == "program":
            counts[act.subject] += act.count
    if not counts:
        counts.update(event["path"] for event in journals.of("program"))
    return tuple(Program(path=path, count=count) for path, count in counts.items())
