from __future__ import annotations

import json
import struct
from importlib.util import find_spec

import pytest

from tests.cli.conftest import MakeProject, Project

STEPS = [
    {"step": 0, "val": {"value": 0.25, "low": 0.1, "high": 0.4, "count": 8}},
    {"step": 1, "loss": 0.5, "reward": 0.5, "entropy": 2.0, "gap": 1e-5, "tokens_per_s": 12.5},
    {"step": 2, "loss": 0.25, "reward": None, "entropy": 1.5, "gap": 1e-5, "tokens_per_s": 13.0},
    {"step": 2, "val": {"value": 0.75, "low": None, "high": None, "count": 1}},
]


@pytest.fixture
def trained(make_project: MakeProject) -> Project:
    project = make_project(tasks=20)
    for name, records in (("aa-sft", STEPS[:2]), ("ab-grpo", STEPS)):
        folder = project.root / ".ratchet" / "training" / name
        folder.mkdir(parents=True)
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (folder / "metrics.jsonl").write_text(lines)
    return project


def test_the_steps_of_a_training_are_shown_with_val_and_its_interval(trained: Project) -> None:
    done = trained.ratchet("train", "runs", "ab")
    assert done.returncode == 0, done.stderr
    assert "ab-grpo: 2 steps" in done.stdout
    assert "best on val: 0.750 after step 2" in done.stdout
    assert "entropy" in done.stdout
    assert "KL" not in done.stdout


def test_the_curves_are_written_as_json_and_png(trained: Project) -> None:
    said = trained.json("train", "runs", "ab-grpo", "--png", "curves.png")
    assert said["records"] == STEPS
    assert (trained.root / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_tensorboard_reads_the_curves(trained: Project) -> None:
    done = trained.ratchet("train", "runs", "ab", "--send", "tensorboard=logs")
    assert done.returncode == 0, done.stderr
    (file,) = (trained.root / "logs" / "ab-grpo").iterdir()
    content, events = file.read_bytes(), []
    while content:
        (length,) = struct.unpack("<Q", content[:8])
        events.append(content[12 : 12 + length])
        content = content[16 + length :]
    assert b"brain.Event:2" in events[0]
    assert len(events) == 1 + len(STEPS)
    # Field 1 of a value is its tag, field 2 its number.
    assert b"\x0a\x04loss\x15" + struct.pack("<f", 0.5) in events[2]
    assert b"\x0a\x03val\x15" + struct.pack("<f", 0.75) in events[4]
    assert b"reward" not in events[3]


def test_weights_and_biases_gets_each_step_once(trained: Project) -> None:
    pytest.importorskip("wandb")
    environ = {"WANDB_MODE": "offline"}
    done = trained.ratchet("train", "runs", "ab", "--send", "wandb=curves", env=environ)
    assert done.returncode == 0, done.stderr
    assert "written for Weights & Biases, as ab-grpo of curves" in done.stdout
    (written,) = (trained.root / ".ratchet" / "wandb").glob("offline-run-*/run-ab-grpo.wandb")
    content = written.read_bytes()
    assert b"val/low" in content
    assert b"tokens_per_s" in content
    assert str(trained.root).encode() not in content
    assert not (trained.root / "wandb").exists()


@pytest.mark.skipif(find_spec("wandb") is not None, reason="it is installed")
def test_without_the_package_of_weights_and_biases_the_hint_names_the_extra(
    trained: Project,
) -> None:
    done = trained.ratchet("train", "runs", "ab", "--send", "wandb=curves")
    assert done.returncode == 2
    assert "agent-ratchet[wandb]" in done.stderr


def test_a_folder_that_cannot_be_written_is_named(trained: Project) -> None:
    (trained.root / "logs").write_text("a file")
    done = trained.ratchet("train", "runs", "ab", "--send", "tensorboard=logs")
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
