from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ratchet.store import Store
from ratchet.types import Model
from tests.cli.conftest import CONFIG, MakeProject, Project
from tests.weights.fine_tuning_server import KEY, FineTuningServer, fine_tuning_server

ENV = {"OPENAI_API_KEY": KEY}


@pytest.fixture
def hosted() -> Iterator[FineTuningServer]:
    with fine_tuning_server() as running:
        yield running


@pytest.fixture
def trainable(make_project: MakeProject, hosted: FineTuningServer) -> Project:
    train = f'\n[train]\nbase_url = "{hosted.url}"\nmodel = "small"\n'
    project = make_project(config=CONFIG + train, tasks=20)
    project.write("sft.jsonl", '{"messages": []}\n')
    return project


def said(project: Project, *arguments: str) -> dict[str, Any]:
    done = project.ratchet(*arguments, "--json", env=ENV)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_model_is_trained_and_stored(trainable: Project, hosted: FineTuningServer) -> None:
    found = said(trainable, "train", "start", "sft.jsonl", "--interval", "0.1", "--set", "n=2")
    assert found["job"]["trained_model"] == "ft:small:org::1"
    with Store.open(f"sqlite:///{trainable.root}/.ratchet/ratchet.db") as store:
        assert store.resources.get(found["model_version"]) == Model("ft:small:org::1", hosted.url)
    again = said(trainable, "train", "start", "sft.jsonl", "--set", "n=2")
    assert again["job"]["id"] == found["job"]["id"]
    assert len(hosted.jobs) == 1
    assert KEY not in "".join(p.read_text() for p in trainable.root.glob(".ratchet/*/*.json"))


def test_a_job_left_alone_is_listed_watched_and_cancelled(
    trainable: Project, hosted: FineTuningServer
) -> None:
    hosted.statuses = ["running"]
    started = said(trainable, "train", "start", "sft.jsonl", "--no-wait")["job"]
    (listed,) = said(trainable, "train", "jobs")["jobs"]
    assert (listed["id"], listed["state"]) == (started["id"], "running")
    watched = said(trainable, "train", "watch", started["id"][:8], "--no-wait")
    assert watched["job"]["remote_status"] == "running"
    assert said(trainable, "train", "cancel", started["remote_id"])["job"]["state"] == "cancelled"
    anew = said(trainable, "train", "start", "sft.jsonl", "--no-wait")["job"]
    assert anew["id"] != started["id"]


def test_a_job_that_fails_ends_the_command_with_the_reason(
    trainable: Project, hosted: FineTuningServer
) -> None:
    hosted.statuses = ["failed"]
    hosted.error = {"code": "bad", "message": "Too few examples.", "param": None}
    done = trainable.ratchet("train", "start", "sft.jsonl", env=ENV)
    assert done.returncode == 1
    assert "Too few examples." in done.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("start", "none.jsonl"), "There is no training data in none.jsonl"),
        (("start", "sft.jsonl", "--set", "n"), "'n' is not a setting"),
        (("start", "sft.jsonl", "--method", "rl"), "'rl' is not one of sft, dpo"),
        (("watch", "nothing"), "There is no hosted job 'nothing'"),
    ],
)
def test_mistakes_are_named(trainable: Project, arguments: tuple[str, ...], sentence: str) -> None:
    done = trainable.ratchet("train", *arguments, env=ENV)
    assert done.returncode == 2
    assert sentence in done.stderr


def test_a_key_that_is_missing_is_named(trainable: Project) -> None:
    done = trainable.ratchet("train", "start", "sft.jsonl", env={"OPENAI_API_KEY": ""})
    assert done.returncode == 2
    assert "OPENAI_API_KEY is not set" in done.stderr
