from __future__ import annotations

import json

import pytest

from ratchet.autopilot.project_tasks import project_dataset
from ratchet.types import Feedback
from tests.cli.conftest import MakeProject, Project
from tests.weights.recorded import add_rollout, asked


@pytest.fixture
def recorded(make_project: MakeProject) -> Project:
    """A project with rollouts on a train and on a test task."""
    from ratchet.autopilot import Project as Opened

    project = make_project()
    opened = Opened.find(project.root)
    dataset, _ = project_dataset(opened)
    with opened.open_store() as store:
        for split in ("train", "val", "test"):
            task = dataset.split(split)[0]  # type: ignore[arg-type]
            add_rollout(store, asked(f"a {split} task", "good"), task=task.id, given=task.input)
        bad = add_rollout(store, asked("live", "bad"), given="live", output="bad", score=0.0)
        store.feedback.add(
            [Feedback(id="f", kind="correction", rollout_id=bad, content="better")], 1.0
        )
    return project


def test_rollouts_and_corrections_are_exported_and_the_test_split_is_not(
    recorded: Project,
) -> None:
    done = recorded.ratchet(
        "train", "export", "sft.jsonl", "--evaluator", "reward", "--validation", "v.jsonl", "--json"
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["files"] == [{"file": "sft.jsonl", "rows": 2}, {"file": "v.jsonl", "rows": 1}]
    assert said["left_out"]["its task is reserved for experiments"] == 1
    text = (recorded.root / "sft.jsonl").read_text() + (recorded.root / "v.jsonl").read_text()
    assert "a train task" in text
    assert "better" in text
    assert "a test task" not in text


def test_an_existing_file_is_not_replaced_unasked(recorded: Project) -> None:
    (recorded.root / "sft.jsonl").write_text("mine")
    done = recorded.ratchet("train", "export", "sft.jsonl", "--evaluator", "reward")
    assert done.returncode == 2
    assert "--force" in done.stderr
    assert (recorded.root / "sft.jsonl").read_text() == "mine"


@pytest.mark.parametrize(
    ("option", "value"), [("--method", "rl"), ("--format", "csv"), ("--from", "here")]
)
def test_unknown_choices_are_named(recorded: Project, option: str, value: str) -> None:
    done = recorded.ratchet("train", "export", "out.jsonl", option, value)
    assert done.returncode == 2
    assert repr(value) in done.stderr


def test_a_project_without_tasks_exports_its_corrections(recorded: Project) -> None:
    (recorded.root / "tasks.jsonl").unlink()
    done = recorded.ratchet("train", "export", "out.jsonl", "--from", "feedback", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["files"] == [{"file": "out.jsonl", "rows": 1}]
