"""Writes a project's prompt files with a release's texts, for its live agents to read."""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Hashable
from pathlib import Path

from ratchet._redirected_files import own_content
from ratchet.observe.bundles import read_bundle, write_bundle
from ratchet.observe.import_bound import file_of, rendered_files_path
from ratchet.observe.project_paths import FILE_NAME
from ratchet.source.prompt_files import path_of, rendered
from ratchet.types import InputError, LiveVersions, PromptFile, RenderedFile, RenderedFiles


class LivePromptFiles:
    """See `ratchet.store.local_agents.PromptFiles`.

    Args:
        root: The project's folder; its files are those of [[prompt_files]] in `ratchet.toml`.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def mark(self) -> Hashable:
        """Something else whenever a file, or which files there are, has changed."""
        paths = [self._root / FILE_NAME]
        try:
            paths += [self._root / file.path for file in self._files()]
        except (OSError, ValueError):
            pass
        return tuple(_state(path) for path in paths)

    def publish(self, versions: LiveVersions, file: Path, /) -> None:
        """Write the rendered prompt files for an agent; nothing if there are and were none."""
        path = rendered_files_path(self._root, file)
        rendered_files = self._made(versions)
        former = read_bundle(path, RenderedFiles)
        if rendered_files != former and (
            former is not None or rendered_files.files or rendered_files.refusal
        ):
            write_bundle(path, rendered_files)

    def _made(self, versions: LiveVersions) -> RenderedFiles:
        release = versions.release_id
        try:
            files = self._files() if versions.release else []
            # Before the content is made: an agent must not take it for that of a newer source.
            own = {str(path): _digest(path) for path in (path_of(self._root, f) for f in files)}
            contents = rendered(self._root, files, versions.release)
        except InputError as error:
            return RenderedFiles(release, refusal=error.message)
        except (OSError, ValueError) as error:
            return RenderedFiles(release, refusal=str(error))
        top = os.path.realpath(self._root)
        own_files = (
            RenderedFile(os.path.relpath(path, top), own[path], content)
            for path, content in sorted(contents.items())
        )
        return RenderedFiles(release, tuple(own_files))

    def _files(self) -> list[PromptFile]:
        """The files that `ratchet.toml` names.

        Raises:
            OSError: It cannot be read.
            ValueError: It is malformed.
        """
        try:
            text = own_content(self._root / FILE_NAME).decode("utf-8-sig")
        except FileNotFoundError:
            return []
        sections = tomllib.loads(text).get("prompt_files", [])
        if not isinstance(sections, list):
            raise ValueError("[[prompt_files]] in ratchet.toml is not a list of tables.")
        return [file_of(section) for section in sections]


def _digest(path: Path) -> str:
    return hashlib.sha256(own_content(path)).hexdigest()


def _state(path: Path) -> Hashable:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
