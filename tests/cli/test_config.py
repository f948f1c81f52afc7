"""`ratchet config`: settings from the command line, as on the dashboard."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ratchet.cli.app import run

ROLLOUTS = "improve.budget.rollouts"
TEXT = """[agent]
entry = "agent:answer"

[improve.budget]
rollouts = 1_000 # enough
"""


def test_the_command_changes_lists_and_takes_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path
    (root / "ratchet.toml").write_text(TEXT)
    where = ["-C", str(root)]
    assert run(["config", "set", ROLLOUTS, "55", "--dry-run", "--json", *where]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["written"] is False
    assert (root / "ratchet.toml").read_text() == TEXT
    assert run(["config", "set", ROLLOUTS, "55", *where]) == 0
    told = capsys.readouterr().out
    assert "+ rollouts = 55 # enough" in told
    assert f"To take it back: ratchet config set {ROLLOUTS} 1_000" in told
    assert run(["config", "set", ROLLOUTS, "1_000", *where]) == 0
    assert (root / "ratchet.toml").read_text() == TEXT
    assert run(["config", "set", "autopilot.mode", "canary", *where]) == 0
    assert run(["config", "unset", "autopilot.mode", "--json", *where]) == 0
    assert (root / "ratchet.toml").read_text() == TEXT
    capsys.readouterr()
    assert run(["config", "list", *where]) == 0
    listed = capsys.readouterr().out
    assert ROLLOUTS in listed
    assert "prove.alpha" not in listed
    assert run(["config", "list", "--all", *where]) == 0
    assert "prove.alpha" in capsys.readouterr().out
    assert run(["config", "set", "ship.test", "rm -r /", *where]) == 2
    assert "cannot be changed here" in capsys.readouterr().err
