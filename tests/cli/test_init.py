"""`ratchet init --look` as people and machines read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ratchet.cli.app import run
from tests.wire.repositories import LOOK_ALIKES


def test_the_page_names_entry_prompts_effects_and_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = LOOK_ALIKES[2].write(tmp_path)
    assert run(["init", "--look", str(root)]) == 0
    page = capsys.readouterr().out
    for words in ("openai-agents", "src/texts/clerk.md", "overlay", "serve(", ".env.prod"):
        assert words in page
    assert "never-read" not in page


def test_the_page_names_tests_tracing_and_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = {case.name: case for case in LOOK_ALIKES}
    traced = named["traced-already"].write(tmp_path)
    assert run(["init", "--look", str(traced)]) == 0
    page = " ".join(capsys.readouterr().out.split())
    for words in ("python -m pytest", "1 test in 1 file", "global tracer provider is set at"):
        assert words in page
    assert "No data that could be tasks found." in page
    kept = named["data-that-could-be-tasks"].write(tmp_path)
    assert run(["init", "--look", str(kept)]) == 0
    page = capsys.readouterr().out
    assert "data/loans.csv" in page
    assert "lost, sadly" not in page


def test_the_json_has_all_facts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = LOOK_ALIKES[0].write(tmp_path)
    assert run(["init", "--look", str(root), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["prompts"][0]["parts"][0]["start"] > 0
    assert found["prompts_left_out"][0]["reason"].startswith("index")


def test_init_without_look_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init"]) == 2
    assert "ratchet init --look" in capsys.readouterr().err
