"""The CI job: valid for both forges, and written where the repository needs it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from ratchet.ship.forges.settings import ForgeSettings
from ratchet.ship.forges.workflow import workflow, write_workflow


def test_a_job_for_gitlab_runs_on_merge_requests_with_evidence(project: Any) -> None:
    project.git("remote", "add", "origin", "git@gitlab.com:acme/team/helper.git")
    written = write_workflow(project.root, ForgeSettings())
    assert written.path == project.root / ".gitlab" / "ratchet-evidence.yml"
    assert "include: { local: .gitlab/ratchet-evidence.yml }" in written.next_step
    job = yaml.safe_load(written.path.read_text())["ratchet-evidence"]
    (rule,) = job["rules"]
    assert rule["changes"] == [".ratchet-evidence/*.json"]
    assert "ratchet verify" in job["script"][-1]
    assert write_workflow(project.root, ForgeSettings()).written is False


@pytest.mark.parametrize("forge", ["github", "gitlab"])
def test_a_job_has_no_secrets_and_installs_this_version(forge: Any) -> None:
    from ratchet._version import __version__

    text = workflow(forge)
    assert f"agent-ratchet[tool]=={__version__}" in text
    assert "secret" not in text.lower()
    assert "token" not in text.lower()
