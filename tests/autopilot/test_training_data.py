from __future__ import annotations

import json
from pathlib import Path

from ratchet.autopilot import Project
from ratchet.autopilot.project_tasks import project_dataset
from ratchet.autopilot.training_data import training_splits

QUESTIONS = [
    "How long does a refund of a broken toaster usually take to arrive?",
    "Which documents does a customs declaration for Norway need from me?",
    "Can the warranty of a used bicycle be transferred to its new owner?",
    "What happens to my points when two loyalty accounts are merged today?",
    "Why was the delivery of my parcel postponed for the third time now?",
    "Where do I find the invoice of an order that I placed as a guest?",
    "Who repairs a coffee machine that was bought in another country?",
    "When is the service desk in the harbour open on public holidays?",
]


def project(folder: Path, tasks: bool = True) -> Project:
    (folder / "ratchet.toml").write_text('[agent]\nentry = "agent:answer"\n')
    if tasks:
        lines = [json.dumps({"id": str(n), "input": q}) for n, q in enumerate(QUESTIONS)]
        (folder / "tasks.jsonl").write_text("\n".join(lines))
    return Project.find(folder)


def test_an_input_has_the_split_of_the_task_that_it_resembles(tmp_path: Path) -> None:
    opened = project(tmp_path)
    dataset, _ = project_dataset(opened)
    split_of = training_splits(opened)
    inputs = [task.input for task in dataset.tasks]
    said = [dataset.splits[task.id] for task in dataset.tasks]
    assert split_of(inputs) == said
    assert split_of([text.upper() + "!!" for text in inputs]) == said
    assert split_of([f"hello, {text} thanks" for text in inputs]) == said


def test_what_resembles_no_task_may_be_trained_on(tmp_path: Path) -> None:
    split_of = training_splits(project(tmp_path))
    unlike = ["The tide tables of Bergen for the coming spring, in metres.", {"n": 3}, None]
    assert split_of(unlike) == ["train"] * 3
    assert split_of([]) == []


def test_without_tasks_everything_may_be_trained_on(tmp_path: Path) -> None:
    assert training_splits(project(tmp_path, tasks=False))(["a", 1]) == ["train", "train"]
