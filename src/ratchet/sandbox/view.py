"""The files that a sandbox can see: an allow-list, minus hidden paths."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ratchet.sandbox.interpreter import Interpreter, this_interpreter
from ratchet.sandbox.limits import SandboxFailed
from ratchet.source.secret_files import HOME_NAMES, SECRET_NAMES, is_secret, secret_files

_SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/fonts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/pki/tls/certs",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
)
"""Paths that programs and their libraries need on any machine; they hold no user data."""

_FOR_COMMANDS = (
    "/opt",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/profile",
    "/etc/services",
    "/etc/protocols",
)
"""Additional paths that a test command may need."""

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

ABOUT_THE_MACHINE = ("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg")
"""Files of /proc that reveal nothing about processes."""

_MOST_RULES = 20_000


@dataclass(frozen=True)
class FileView:
    """The files that a sandbox can see, as absolute paths without symbolic links."""

    read: tuple[str, ...]
    """Folders and files that may be read and executed; none contains another."""
    write: tuple[str, ...] = ()
    """Writable folders."""
    hide: tuple[str, ...] = ()
    """Hidden folders and files inside the visible ones; they need not exist yet."""
    links: tuple[tuple[str, str], ...] = ()
    """Symbolic links outside the visible folders that lead to them: path and target."""


def file_view(
    *,
    path: Sequence[str] = (),
    root: Path | None = None,
    read: Iterable[str | Path] = (),
    write: Iterable[str | Path] = (),
    hide: Iterable[str | Path] = (),
    commands: bool = False,
    python: Interpreter | None = None,
) -> FileView:
    """The view for these paths, the system and an interpreter.

    Files named like secrets are always hidden: all in the project, those directly in another
    visible folder, and those of the user's home.

    Args:
        path: Python's import path.
        root: The project's folder, all of whose secrets are hidden.
        read: Additional paths to read.
        write: Folders to write to.
        hide: Paths that must not be read wherever they are; takes precedence over everything else.
        commands: Also show what test commands may need.
        python: The interpreter; this one when left out.

    Raises:
        SandboxFailed: A path would expose the whole file system.
    """
    python = python or this_interpreter()
    read, write = list(read), list(write)
    visible = [*_SYSTEM, *(_FOR_COMMANDS if commands else ()), *path, *read, *write]
    visible += [*python.prefixes, Path(__file__).parent / "inside", python.executable]
    if root is not None:
        visible.append(root)
    for visible_path in visible:
        if _resolved(visible_path) == "/":
            raise SandboxFailed(
                f"A sandbox cannot make {os.fspath(visible_path)!r} visible: that is the whole "
                "file system.",
                hint="Name the project's folder instead.",
            )
    hidden = [_resolved(secret) for secret in hide]
    if root is not None:
        # Including those that do not exist yet.
        secret_places = (os.path.join(_resolved(root), name) for name in sorted(SECRET_NAMES))
        hidden += [secret for secret in secret_places if not _is_environment(secret)]
        hidden += map(_resolved, secret_files(root))
    hidden += _secrets_beside([*path, *read], write, python)
    readable = {
        resolved
        for resolved in map(_resolved, visible)
        if os.path.exists(resolved) and not _within(resolved, hidden)
    }
    writable = [w for w in map(_resolved, write) if os.path.isdir(w) and not _within(w, hidden)]
    outermost = tuple(p for p in sorted(readable) if not _within(p, readable - {p}))
    links = {link for visible_path in visible for link in _links(os.path.abspath(visible_path))}
    return FileView(
        read=outermost,
        write=tuple(sorted(set(writable))),
        hide=tuple(sorted({h for h in hidden if _within(h, readable)})),
        links=tuple(sorted(link for link in links if not _within(link[0], outermost))),
    )


def importable(repository: Path, python: Interpreter | None = None) -> list[Path]:
    """An interpreter's import path, without the repository, which a copy replaces.

    An environment inside the repository stays. A folder above the repository is left out too: it
    would show the repository.
    """
    python = python or this_interpreter()
    root = repository.resolve()
    folders = [Path(entry).resolve() for entry in python.path if Path(entry).exists()]
    own = Path(python.prefix).resolve()
    return [
        folder
        for folder in dict.fromkeys(folders)
        if folder.is_relative_to(own)
        or not (folder.is_relative_to(root) or root.is_relative_to(folder))
    ]


def _secrets_beside(
    read: Iterable[str | Path], write: Iterable[str | Path], python: Interpreter
) -> list[str]:
    """Secrets directly in read-only folders, and those of the home folder.

    Except those that contain an explicitly named path or the interpreter.
    """
    readable, writable = {_resolved(path) for path in read}, {_resolved(path) for path in write}
    needed = {_resolved(path) for path in (*python.prefixes, python.executable)}
    secrets = {os.path.join(Path.home(), name) for name in HOME_NAMES}
    for folder in readable:
        if not _within(folder, writable):
            with contextlib.suppress(OSError):
                inside = (os.path.join(folder, n) for n in os.listdir(folder) if is_secret(n))
                secrets |= {secret for secret in inside if not _is_environment(secret)}
    explicit = readable | writable | needed
    hidden = {_resolved(secret) for secret in secrets}
    return sorted(
        secret for secret in hidden if not any(_within(path, [secret]) for path in explicit)
    )


def _is_environment(folder: str) -> bool:
    """Whether it is a virtual environment."""
    return os.path.isfile(os.path.join(folder, "pyvenv.cfg"))


def landlock_rules(
    view: FileView, scratch: str, *, more_write: Iterable[str] = ()
) -> list[tuple[str, str]]:
    """The view as Landlock rules. Rules can only allow, so hiding a path means allowing its
    siblings.

    Raises:
        SandboxFailed: There are so many siblings that it would take seconds.
    """
    from ratchet.sandbox.inside.landlock import (
        DEVICE_ACCESS,
        LIST_ACCESS,
        READ_ACCESS,
        WRITE_ACCESS,
    )

    rules: list[tuple[str, str]] = [(scratch, WRITE_ACCESS)]
    rules += [(device, DEVICE_ACCESS) for device in DEVICES]
    rules += [(file, READ_ACCESS) for file in ABOUT_THE_MACHINE]
    for folder in view.read:
        for path, fully_visible in _around(folder, view.hide):
            rules.append((path, READ_ACCESS if fully_visible else LIST_ACCESS))
    for folder in (*view.write, *more_write):
        # In a folder that contains something hidden, new entries can only be made in its
        # subfolders.
        rules += [
            (path, WRITE_ACCESS)
            for path, fully_visible in _around(folder, view.hide)
            if fully_visible
        ]
    if len(rules) > _MOST_RULES:
        raise SandboxFailed(
            f"Hiding single files takes {len(rules)} rules here, one for each file beside them.",
            hint="Hide their folder instead, or move them into a separate folder.",
        )
    return rules


def _around(folder: str, hidden: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """The parts of a folder that are not hidden, and whether each is completely visible."""
    if folder in hidden:
        return
    below = [path for path in hidden if _within(path, {folder})]
    if not below:
        yield folder, True
        return
    yield folder, False
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        inner = os.path.join(folder, name)
        if not os.path.islink(inner):  # a link's target has its own rule, or none
            yield from _around(inner, below)


def _links(path: str) -> Iterator[tuple[str, str]]:
    """The symbolic links along a path."""
    place = "/"
    parts = [part for part in path.split("/") if part]
    for _ in range(40 + len(parts)):
        if not parts:
            return
        name = parts.pop(0)
        if name == "..":
            place = os.path.dirname(place)
        elif name != ".":
            place = os.path.join(place, name)
        if os.path.islink(place):
            target = os.readlink(place)
            yield place, target
            place = "/" if target.startswith("/") else os.path.dirname(place)
            parts = [part for part in target.split("/") if part] + parts


def _resolved(path: str | Path) -> str:
    return os.path.realpath(os.fspath(path))


def _within(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of the folders or lies in one."""
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)
