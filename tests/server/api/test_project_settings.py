"""What of `ratchet.toml` the API shows: budgets, policy, retention and redaction, and no secret."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

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


def test_settings_are_shown_with_defaults_and_what_the_file_sets(
    serving: Callable[..., RunningServer], sqlite_url: str, tmp_path: Path
) -> None:
    (tmp_path / "ratchet.toml").write_text(CONFIG)
    server = serving(sqlite_url, ServeSettings(port=0, project=str(tmp_path)))
    with server.client() as http:
        answer = http.get("/v1/project-settings")
        sections = {each["name"]: each for each in answer.json()["sections"]}
        assert sections["improve.budget"]["values"]["rollouts"] == 77
        assert sections["improve.budget"]["changed"] == ["rollouts"]
        assert sections["retention"]["values"]["spans_days"] == 5
        assert sections["watch"]["changed"] == []
        assert sections["autopilot"]["values"]
        assert "password" not in answer.text
        (tmp_path / "ratchet.toml").write_text(CONFIG + "\n[nonsense]\n")
        told = http.get("/v1/project-settings")
        assert told.status_code == 422
        assert "nonsense" in told.json()["detail"]


def test_without_a_project_there_are_none(server: RunningServer) -> None:
    with server.client() as http:
        assert http.get("/v1/project-settings").json() == {"sections": []}
