"""Which files of a program are bundled for the browser, where the npm package does not run."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path

from ratchet.types import InputError
from ratchet.wire.entry.javascript_file import is_javascript, javascript_files
from ratchet.wire.entry.javascript_import_graph import ImportGraph
from ratchet.wire.looking.files import RepositoryFiles

_DIRECTIVE = re.compile(
    rb"""\A(?:\xef\xbb\xbf)?(?:\s|//[^\n]*\n|/\*.*?\*/)*["']use (client|server)["']""", re.S
)
_PAGE = re.compile(
    rb"""\bfrom\s+["'](?:react-dom(?:/client)?|vue|svelte|solid-js/web)["']|\bcreateRoot\("""
)


class BrowserFiles:
    """Files that a page loads: those with "use client", those that make a page, what they import.

    Args:
        root: The repository.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def refuse(self, path: str) -> None:
        """Raise InputError for a file that is bundled for the browser."""
        if path in self._paths:
            raise InputError(
                f"{path} is bundled for the browser too, where the package does not run."
            )

    @functools.cached_property
    def _paths(self) -> set[str]:
        known = RepositoryFiles(self._root)
        files = list(
            javascript_files(self._root, [one for one in known.paths if is_javascript(one)])
        )
        said = {one.path: word[1] for one in files if (word := _DIRECTIVE.match(one.data))}
        graph = ImportGraph(files, dict(self._packages(known)))
        actions = {path for path, what in said.items() if what == b"server"}
        found: set[str] = set()
        for one in files:
            if said.get(one.path) == b"client" or _PAGE.search(one.data):
                found |= graph.reached(one.path, actions | found)
        return found

    def _packages(self, known: RepositoryFiles) -> Iterator[tuple[str, str]]:
        """The repository's own packages, with their folders."""
        for path in known.named("package.json"):
            try:
                data = json.loads(known.text(path) or "")
            except ValueError:
                continue
            folder = path.rpartition("/")[0]
            if folder and isinstance(data, dict) and isinstance(data.get("name"), str):
                yield data["name"], folder
