"""`ratchet demo --model`: the loop on an agent with a real language model."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from pathlib import Path

import pytest

from ratchet.cli.demo import example_folder
from tests import interpreters
from tests.local_models import GROUP, require_model

LONG = bool(os.environ.get("RATCHET_LONG_FAULTS"))
pytestmark = pytest.mark.xdist_group(GROUP)


def ratchet(folder: Path, *arguments: str) -> str:
    """What the command prints."""
    done = interpreters.run(
        [sys.executable, "-m", "ratchet", *arguments],
        cwd=folder,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_its_tasks_are_what_the_interpreter_says() -> None:
    lines = (example_folder("letter_names") / "tasks.jsonl").read_text().splitlines()
    for task in map(json.loads, lines):
        letter = unicodedata.lookup(task["input"])
        plain = f"LATIN {'SMALL' if letter.islower() else 'CAPITAL'} LETTER "
        assert unicodedata.name(task["expected"]) == plain + task["input"].split()[3]
    assert len(lines) > 300


@pytest.mark.long
def test_the_example_agent_answers_by_the_model_and_its_first_answers_are_no_letters(
    tmp_path: Path,
) -> None:
    require_model()
    folder = tmp_path / "letters"
    folder.mkdir()
    for path in filter(Path.is_file, example_folder("letter_names").iterdir()):
        (folder / path.name).write_bytes(path.read_bytes())
    said = json.loads(ratchet(folder, "eval", "--limit", "6", "--split", "val", "--json"))
    (seen,) = said["candidates"]
    assert seen["rollouts"] == 6
    assert seen["failed"] == 0


def test_a_demo_with_a_model_is_not_continued_without(tmp_path: Path) -> None:
    state = tmp_path / "there" / ".ratchet"
    state.mkdir(parents=True)
    (state / "demo.json").write_text('{"example": "letter_names", "shuffled": false}')
    done = interpreters.run(
        [sys.executable, "-m", "ratchet", "demo", "there"], cwd=tmp_path, env=dict(os.environ)
    )
    assert done.returncode == 2
    assert "made with --example letter_names" in done.stderr


@pytest.mark.skipif(not LONG, reason="a longer form: make faults")
def test_the_agent_gets_better_on_names_it_never_saw_and_is_shipped(tmp_path: Path) -> None:
    require_model()
    last = json.loads(ratchet(tmp_path, "demo", "--model").splitlines()[-1])
    assert last["verdict"] == "promote"
    assert last["branch"]
    assert last["candidate"] > last["baseline"] + 0.2
