"""The files that must be executable for a program to run: its interpreters, loaders and helpers."""

from __future__ import annotations

import glob
import os
import re
import shutil
from collections.abc import Sequence

_PYTHON = re.compile(r"python[\d.]*")
_SHEBANG = re.compile(rb"#![ \t]*(\S+)(?:[ \t]+(\S+))?")


def executables(programs: Sequence[str], folder: str, path: str) -> tuple[list[str], list[str]]:
    """The files that must be executable for some programs to run.

    Args:
        programs: Names on the PATH, or paths relative to a folder.
        folder: That folder.
        path: The PATH.

    Returns:
        The programs, their interpreters and the folders of their helpers; and the same with the
        loaders of their libraries, which only the kernel may start.
    """
    files: set[str] = set()
    loaders: set[str] = set()
    cores: dict[str, list[str]] = {}
    """Folders of helpers by the prefix that programs are installed under."""
    waiting = list(programs)
    while waiting:
        program = os.path.expanduser(waiting.pop())
        if os.sep in program:
            places = [os.path.join(folder, program)]
        else:
            places = [os.path.join(part or ".", program) for part in path.split(os.pathsep)]
        for place in places:
            actual = os.path.realpath(place)
            if not os.path.isfile(actual) or not os.access(actual, os.X_OK) or actual in files:
                continue
            files.add(actual)
            interpreters, loader = _needs(actual)
            waiting += interpreters
            loaders |= loader
            # Programs that it starts itself, such as those in /usr/lib/git-core.
            prefix, name = os.path.dirname(os.path.dirname(actual)), os.path.basename(place)
            if prefix not in cores:
                cores[prefix] = glob.glob(f"{glob.escape(prefix)}/lib*/*-core")
            helpers = (core for core in cores[prefix] if os.path.basename(core) == f"{name}-core")
            files.update(os.path.realpath(folder) for folder in helpers if os.path.isdir(folder))
    return sorted(files), sorted(files | loaders)


def shim_of(program: str, path: str | None) -> str:
    """The script that starts another interpreter, if a name such as `python` means one; else empty.

    Args:
        program: The name.
        path: The PATH.
    """
    file = shutil.which(program, path=path) if _PYTHON.fullmatch(program) else None
    return file if file is not None and _needs(file)[0] else ""


def portable_name(file: str, root: str | None) -> str:
    """The name by which another machine finds a program: in the project, on the PATH, or a path.

    Args:
        file: Absolute path of the program.
        root: The project's folder.
    """
    if root is not None and file.startswith(f"{root}{os.sep}"):
        return os.path.relpath(file, root)
    name = os.path.basename(file)
    on_path = shutil.which(name)
    found = on_path is not None and os.path.realpath(on_path) == os.path.realpath(file)
    return name if found else file


def _needs(file: str) -> tuple[list[str], set[str]]:
    """The interpreters of a script, or the loader of a program's libraries."""
    try:
        with open(file, "rb") as opened:
            head = opened.read(4096)
    except OSError:
        return [], set()
    if script := _SHEBANG.match(head):
        names = [os.fsdecode(word) for word in script.groups() if word]
        by_env = os.path.basename(names[0]) == "env" and len(names) > 1
        return (names if by_env else names[:1]), set()
    loader = re.search(rb"/[\w./+-]*ld[\w.-]*\.so\.\d+\0", head)
    return [], {os.path.realpath(os.fsdecode(loader.group()[:-1]))} if loader else set()
