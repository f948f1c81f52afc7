"""`ratchet verify` on the evidence of a live stage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ratchet.cli.app import run
from ratchet.prove import ShadowPair, ShadowPlan, write_stage_evidence

PAIRS = 13
"""As many as it takes to stop a candidate that is worse by 0.8 in each."""


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    path = tmp_path / "shadow.json"
    pairs = [
        ShadowPair(trace_id=f"t{number}", baseline=0.9, candidate=0.1) for number in range(PAIRS)
    ]
    decided = write_stage_evidence(path, ShadowPlan(), pairs, baseline={}, candidate={})
    assert decided.verdict == "harm"
    return path


def test_a_stage_is_verified_and_its_sentence_shown(
    evidence: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["verify", str(evidence)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"all of {PAIRS} observations recompute to the stated numbers" in shown
    assert "In shadow the candidate was stopped for harm" in shown


def test_machines_get_the_decision(evidence: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", str(evidence), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is True
    assert found["decision"]["stage"] == "shadow"
    assert found["decision"]["verdict"] == "harm"


def test_an_altered_stage_is_refused(evidence: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evidence.write_text(evidence.read_text().replace('"candidate": 0.1', '"candidate": 0.2', 1))
    assert run(["verify", str(evidence)]) == 6
    assert "Traceback" not in capsys.readouterr().err
