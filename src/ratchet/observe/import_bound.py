"""What a live process keeps from its start: prompts that are read at import, and prompt files."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ratchet._redirected_files import own_content, redirect_live, runs_rollouts
from ratchet.observe.bundles import read_bundle
from ratchet.observe.destination import Destination
from ratchet.observe.project_paths import STATE_NAME
from ratchet.types import (
    ConfigError,
    LiveVersions,
    PromptFile,
    PromptTemplate,
    RenderedFiles,
    Resource,
)
from ratchet.types.prompt_file import FRONT_MATTER

START_WAIT_S = 3.0
"""Seconds for which a starting process waits to learn its release."""

_log = logging.getLogger("ratchet")


def is_import_bound(config: Mapping[str, Any]) -> bool:
    """Whether `ratchet.toml` says that prompts are read at import, or are in files.

    Not in a process of rollouts, whose candidate is bound already.
    """
    if runs_rollouts():
        return False
    run = config.get("run")
    per_candidate = isinstance(run, dict) and run.get("import_per_candidate") is True
    return per_candidate or bool(config.get("prompt_files"))


def redirect_prompt_files(destination: Destination, versions: LiveVersions | None) -> None:
    """Give this process a release's texts when it reads the prompt files. Never raises.

    The tool writes them anew, comments, order and notation as they were: it knows the syntax of
    every format. A server cannot see the agent's files; there, files that are one text as a whole
    get it here.
    """
    sections = destination.config.get("prompt_files")
    root = destination.root
    if root is None or not sections or versions is None or not versions.release or runs_rollouts():
        return
    try:
        if destination.server:
            files = [file_of(section) for section in sections]
            contents = _whole_texts(root, files, versions.release)
        else:
            path = rendered_files_path(root, destination.live)
            contents = _rendered(root, path, versions.release_id)
        redirect_live(contents)
    except Exception as error:
        _log.warning(
            "The release's prompt files cannot be used, so the project's own are read: %s", error
        )


def rendered_files_path(root: Path, live: Path) -> Path:
    """Where the tool writes the prompt files for an agent of a project.

    Args:
        root: The project's folder; several projects may share the store.
        live: File of what the agent should run.
    """
    return root / STATE_NAME / "live" / f"{live.stem}.files"


def _rendered(root: Path, path: Path, release_id: str) -> dict[str, bytes]:
    """The tool's versions of the files, by real path.

    Raises:
        ConfigError: It made nothing, or nothing of this release, yet.
    """
    rendered = read_bundle(path, RenderedFiles)
    if rendered is None or rendered.release_id != release_id:
        raise ConfigError(
            f"no Ratchet command has run in {root} since release {release_id[:12]!r} to write its "
            "texts into them. Run any, such as `ratchet status`."
        )
    if rendered.refusal:
        raise ConfigError(rendered.refusal)
    contents = {}
    for file in rendered.files:
        name = os.path.realpath(root / file.path)
        if hashlib.sha256(own_content(name)).hexdigest() == file.source:
            contents[name] = file.content
        else:
            _log.warning(
                "%s is read as it is: it was changed after the release's texts were written. Any "
                "Ratchet command in the project writes them again, such as `ratchet status`.",
                name,
            )
    return contents


def _whole_texts(
    root: Path, files: Sequence[PromptFile], release: Mapping[str, Resource]
) -> dict[str, bytes]:
    """The files that are a single prompt, with a release's text below their front matter."""
    contents = {}
    for file in files:
        name = os.path.realpath(root / file.path)
        prompt = release.get(file.prompt_name())
        if not file.fields and isinstance(prompt, PromptTemplate):
            own = own_content(name).decode()
            front = FRONT_MATTER.match(own)
            begin = front.end() if front else int(own.startswith("\ufeff"))
            contents[name] = (own[:begin] + prompt.text).encode()
        elif file.fields and any(
            resource_name.startswith(f"{file.prompt_name()}.") for resource_name in release
        ):
            _log.warning(
                "%s is read as it is: the release changes fields of it, which an agent of a "
                "server cannot write. Deploy the release's commit; or give the agent the "
                "project's store, where Ratchet's commands write the file for it.",
                name,
            )
    return contents


def file_of(section: Any) -> PromptFile:
    """An entry of [[prompt_files]].

    Raises:
        msgspec.ValidationError: It has another form.
    """
    settings = dict(section)
    if isinstance(settings.get("fields"), str):
        settings["fields"] = [settings["fields"]]
    return msgspec.convert(settings, PromptFile)
