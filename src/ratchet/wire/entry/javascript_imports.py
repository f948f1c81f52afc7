"""Which files of a program in JavaScript or TypeScript lead to which, by what they import."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from ratchet.wire.entry.javascript_file import JavascriptFile

_IMPORT = re.compile(
    r"""(?:\b(?:import|export)\b(?P<type>\s+type\b)?[^"';]*?\bfrom|\bimport|\brequire)\s*\(?\s*"""
    r"""["'](?P<source>[^"']+)["']"""
)


def reached(
    files: Sequence[JavascriptFile],
    entry: str,
    *,
    packages: Mapping[str, str] | None = None,
    without: Collection[str] = (),
) -> set[str]:
    """The files that an entry's file imports, with itself; a name without a dot may be an alias.

    Args:
        files: Files of the repository.
        entry: Path of the first.
        packages: Folders of the repository's own packages, by name.
        without: Files that are not followed.
    """
    by_path = {file.path: file for file in files}
    stems = {str(PurePosixPath(path).with_suffix("")): path for path in by_path}
    stems |= {stem.removesuffix("/index"): path for stem, path in stems.items()}
    found: set[str] = set()
    waiting = [entry]
    while waiting:
        path = waiting.pop()
        if path in found or path not in by_path or path in without:
            continue
        found.add(path)
        for source in _sources(by_path[path].data.decode(errors="replace")):
            target = re.sub(r"\.[mc]?[jt]sx?$", "", source)
            if target.startswith("."):
                waiting += [stems.get(os.path.normpath(PurePosixPath(path).parent / target), "")]
                continue
            inner = re.sub(r"^[@~]/", "", target)
            waiting += [other for stem, other in stems.items() if stem.endswith(f"/{inner}")]
            for name, folder in (packages or {}).items():
                if target == name or target.startswith(f"{name}/"):
                    rest = target.removeprefix(name).strip("/")
                    tried = [f"{folder}/{rest}", f"{folder}/src/{rest}"]
                    waiting += [stems[one] for each in tried if (one := each.rstrip("/")) in stems]
    return found


def _sources(text: str) -> Iterator[str]:
    """What a file imports, without what it needs for types alone."""
    for one in _IMPORT.finditer(text):
        if not one["type"]:
            yield one["source"]
