"""What the wiring adds beside the code: settings, the dependency, what git ignores, a CI job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ratchet.wire.changes import Changes, StepChanges
from ratchet.wire.choices import Choices
from ratchet.wire.facts import RepositoryLook
from ratchet.wire.former.dependency import dependency, manifest_of
from ratchet.wire.former.ignored import ignored
from ratchet.wire.former.workflow_file import workflow_file
from ratchet.wire.project_files.config_file import config_file


def project_files(
    root: Path, look: RepositoryLook, choices: Choices, config: dict[str, Any]
) -> StepChanges:
    """The files of a project that are not its code.

    Args:
        root: The repository.
        look: Its facts.
        choices: What is decided.
        config: Tables of `ratchet.toml`, of all steps.

    Raises:
        InputError: A file that exists cannot be read.
    """
    tests = next((one.command for one in look.tests if one.project == choices.project), "")
    parts = [
        config_file(root, choices.project, config, tests),
        dependency(root, look, choices.project),
        ignored(root, choices.project),
    ]
    if choices.workflow:
        parts.append(workflow_file(root))
    return StepChanges(Changes.combined(parts), config)


__all__ = ["manifest_of", "project_files"]
