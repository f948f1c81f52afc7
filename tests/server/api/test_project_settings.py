"""What of `ratchet.toml` the API shows and changes: budgets, policy, and no secret."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ratchet.server.serve import ServeSettings
from ratchet.store import Store
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
        assert found(sections, "improve.budget.rollouts")["text"] == "77"
        assert found(sections, "improve.budget.seconds")["is_set"] is False
        assert found(sections, "retention.spans_days")["value"] == 5
        assert [each["is_set"] for each in sections["watch"]["settings"]] == [False] * 7
        assert "Who may approve" in found(sections, "autopilot.approvers")["fixed"]
        assert "password" not in answer.text
        (tmp_path / "ratchet.toml").write_text(CONFIG + "\n[nonsense]\n")
        told = http.get("/v1/project-settings")
        assert told.status_code == 422
        assert "nonsense" in told.json()["detail"]


def test_a_change_is_shown_first_then_written_and_stands_in_the_audit_log_with_both_values(
    serving: Callable[..., RunningServer], sqlite_url: str, tmp_path: Path
) -> None:
    (tmp_path / "ratchet.toml").write_text(CONFIG)
    with Store.open(sqlite_url) as store:
        key, secret = store.keys.create("ann", ("admin",), 1.0)
        _, reader = store.keys.create("bob", ("read", "develop"), 1.0)
    settings = ServeSettings(port=0, project=str(tmp_path), require_key=True)
    server = serving(sqlite_url, settings)
    path = "/v1/project-settings/retention.spans_days"
    with server.client(reader) as http:
        digest = http.get("/v1/project-settings").json()["digest"]
        wanted = {"value": "30", "digest": digest}
        assert http.put(path, json=wanted).status_code == 403
        assert http.post(f"{path}/check", json=wanted).status_code == 403
    with server.client(secret) as http:
        shown = http.post(f"{path}/check", json=wanted).raise_for_status().json()
        assert shown["diff"] == ["- spans_days = 5", "+ spans_days = 30"]
        assert "restart ratchet serve" in shown["follows"]
        assert (tmp_path / "ratchet.toml").read_text() == CONFIG
        done = http.put(path, json=wanted).raise_for_status().json()
        assert done == {**shown, "written": True}
        assert (tmp_path / "ratchet.toml").read_text() == CONFIG.replace("= 5", "= 30")
        stale = http.put(path, json=wanted)
        assert (stale.status_code, "has changed since" in stale.json()["detail"]) == (409, True)
        bad = {"value": "-1", "digest": done["digest"]}
        assert http.put(path, json=bad).status_code == 422
        for fixed in ("server.require_key", "agent.entry", "store.url", "ship.test"):
            told = http.put(f"/v1/project-settings/{fixed}", json={**bad, "value": "true"})
            assert told.status_code == 422
            assert "cannot be changed here" in told.json()["detail"]
        undone = http.put(path, json={"value": done["before"], "digest": done["digest"]})
        assert undone.json()["digest"] == digest
        assert (tmp_path / "ratchet.toml").read_text() == CONFIG
    server.stop()  # which writes the log
    with Store.open(sqlite_url) as store:
        rows = [row for row in store.audit.list()[0] if row.action == "PUT set_project_setting"]
    assert [(row.key_id, row.target) for row in rows if row.status == 200] == [
        (key.id, "retention.spans_days: 30 → 5"),
        (key.id, "retention.spans_days: 5 → 30"),
    ]
