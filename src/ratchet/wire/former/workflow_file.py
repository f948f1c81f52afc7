"""The CI job that verifies the evidence of pull requests, where it is asked for."""

from __future__ import annotations

from pathlib import Path

from ratchet.ship.forges.workflow import PATHS, workflow
from ratchet.wire.changes import Changes, FileChange, LeftAlone
from ratchet.wire.facts import Place


def workflow_file(root: Path) -> Changes:
    """The job for the forge that the repository's files name; GitHub if none does.

    GitLab's own file is not edited: the line to add is said.
    """
    gitlab = (root / ".gitlab-ci.yml").exists() and not (root / ".github").exists()
    path = PATHS["gitlab" if gitlab else "github"]
    left: tuple[LeftAlone, ...] = ()
    if gitlab:
        why = f"It is not edited. Add to it: include: {{ local: {path} }}"
        left = (LeftAlone("the job ratchet-evidence", Place(".gitlab-ci.yml"), why),)
    if (root / path).exists():
        return Changes(left_alone=left)
    content = workflow("gitlab" if gitlab else "github")
    change = FileChange(path, "A CI job that verifies pull requests.", content=content)
    return Changes((change,), left)
