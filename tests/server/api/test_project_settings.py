"""What of `ratchet.toml` the API shows: budgets, policy, and no secret."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ratchet.server.serve import ServeSettings
from tests.serving import RunningServer

CONFIG = """
[agent]
entry = "agent:answer"

[coach]
model = "writer"
key_env = "WRITER_KEY"

[store]
url = "postgresql://me:password@db/ratchet"

[improve.budget]
rollouts = 77

[retention]
spans_days = 5
"""


def found(sections: dict[str, Any], key: str) -> Any:
    """One setting by its key."""
    section, _, name = key.rpartition(".")
    return next(each for each in sections[section]["settings"] if each["name"] == name)


def test_settings_are_shown_with_defaults_and_what_the_file_sets(
    serving: Callable[..., RunningServer], sqlite_url: str, tmp_path: Path
) -> None:
    (tmp_path / "ratchet.toml").write_text(CONFIG)
    server = serving(sqlite_url, ServeSettings(port=0, project=str(tmp_path)))
    with server.client() as http:
        answer = http.get("/v1/project-settings")
        sections = {each["name"]: each for each in answer.json()["sections"]}
        assert found(sections, "improve.budget.rollouts")["value"] == 77
        assert found(sections, "improve.budget.seconds")["is_set"] is False
        assert found(sections, "retention.spans_days")["value"] == 5
        assert [each["is_set"] for each in sections["watch"]["settings"]] == [False] * 7
        assert found(sections, "autopilot.approvers")["about"].startswith("Who may approve")
        assert "password" not in answer.text
        (tmp_path / "ratchet.toml").write_text(CONFIG + "\n[nonsense]\n")
        told = http.get("/v1/project-settings")
        assert told.status_code == 422
        assert "nonsense" in told.json()["detail"]


def test_without_a_project_there_are_none(server: RunningServer) -> None:
    with server.client() as http:
        assert http.get("/v1/project-settings").json() == {"sections": []}
