"""Which files of a program in JavaScript or TypeScript lead to which, by what they import."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import PurePosixPath

from ratchet.wire.entry.javascript_file import JavascriptFile

_IMPORT = re.compile(
    r"""(?:\b(?:import|export)\b(?P<type>\s+type\b)?(?P<clause>[^"';]*?)\bfrom|\bimport|\brequire)"""
    r"""\s*\(?\s*["'](?P<source>[^"']+)["']"""
)
_ENDING = re.compile(r"\.[mc]?[jt]sx?$")


class ImportGraph:
    """Imports among files; those for types alone do not count.

    Args:
        files: Files of the repository.
        packages: Folders of the repository's own packages, by name.
    """

    def __init__(
        self, files: Iterable[JavascriptFile], packages: Mapping[str, str] | None = None
    ) -> None:
        self._files = {file.path: file for file in files}
        self._packages = packages or {}
        stems = {_ENDING.sub("", path): path for path in self._files}
        self._stems = stems | {stem.removesuffix("/index"): path for stem, path in stems.items()}
        self._ends: dict[str, list[str]] = defaultdict(list)
        for stem in self._stems:
            self._ends[stem.rpartition("/")[2]].append(stem)
        self._known: dict[str, list[str]] = {}

    def reached(self, entry: str, without: Collection[str] = ()) -> set[str]:
        """The files that a file imports, with itself.

        Args:
            entry: Its path.
            without: Files that are not followed.
        """
        found: set[str] = set()
        waiting = [entry]
        while waiting:
            path = waiting.pop()
            if path in self._files and path not in found and path not in without:
                found.add(path)
                waiting += self._imported(path)
        return found

    def _imported(self, path: str) -> list[str]:
        if path not in self._known:
            text = self._files[path].data.decode(errors="replace")
            self._known[path] = [
                one
                for source, names in _sources(text)
                for one in self._targets(path, source)
                if not _only_types(self._files[one], names)
            ]
        return self._known[path]

    def _targets(self, importer: str, source: str) -> Iterator[str]:
        """Files that an import may mean; a name without a dot may be an alias."""
        target = _ENDING.sub("", source)
        if target.startswith("."):
            stem = os.path.normpath(PurePosixPath(importer).parent / target)
            if stem in self._stems:
                yield self._stems[stem]
            return
        inner = re.sub(r"^[@~]/", "", target)
        for stem in self._ends.get(inner.rpartition("/")[2], ()):
            if f"/{stem}".endswith(f"/{inner}"):
                yield self._stems[stem]
        for name, folder in self._packages.items():
            if target == name or target.startswith(f"{name}/"):
                rest = target.removeprefix(name).strip("/")
                tried = (f"{folder}/{rest}", f"{folder}/src/{rest}")
                yield from (
                    self._stems[one.rstrip("/")] for one in tried if one.rstrip("/") in self._stems
                )


def _sources(text: str) -> Iterator[tuple[str, list[str]]]:
    """What a file imports, with the names if they are listed."""
    for one in _IMPORT.finditer(text):
        if not one["type"]:
            listed = re.fullmatch(r"\s*\{(.*)\}\s*", one["clause"] or "", re.DOTALL)
            parts = listed[1].split(",") if listed else []
            names = [part.split(" as ")[0].strip() for part in parts if part.strip()]
            yield one["source"], names


def _only_types(file: JavascriptFile, names: list[str]) -> bool:
    """Whether all names that are imported are types, which no program loads."""
    text = file.data.decode(errors="replace") if names else ""
    return bool(names) and all(
        name.startswith("type ")
        or re.search(rf"\bexport\s+(?:declare\s+)?(?:type|interface)\s+{re.escape(name)}\b", text)
        for name in names
    )
