"""What a live process keeps from its start: prompts that are read at import, files of prompts."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ratchet._redirected_files import redirect_live, runs_rollouts
from ratchet.observe.destination import Destination
from ratchet.types import PromptFile, Resource

START_WAIT_S = 3.0
"""How long the start of a process waits to learn its release, in seconds."""

_log = logging.getLogger("ratchet")


def is_import_bound(config: Mapping[str, Any]) -> bool:
    """Whether `ratchet.toml` says that prompts are read at import, or stand in files.

    Not in a process of rollouts, whose candidate is bound already.
    """
    if runs_rollouts():
        return False
    run = config.get("run")
    per_candidate = isinstance(run, dict) and run.get("import_per_candidate") is True
    return per_candidate or bool(config.get("prompt_files"))


def redirect_prompt_files(found: Destination, released: Mapping[str, Resource]) -> None:
    """Let this process read the files of prompts with a release's texts. Never raises."""
    sections = found.config.get("prompt_files")
    if not sections or not released or found.root is None:
        return
    try:
        from ratchet.source.prompt_files import rendered

        files = [file_of(section) for section in sections]
        redirect_live(rendered(Path(found.root), files, released))
    except Exception as error:
        _log.warning("Files of prompts are read as they are: %s", error)


def file_of(section: Any) -> PromptFile:
    """One of [[prompt_files]].

    Raises:
        msgspec.ValidationError: It has another form.
    """
    given = dict(section)
    if isinstance(given.get("fields"), str):
        given["fields"] = [given["fields"]]
    return msgspec.convert(given, PromptFile)
