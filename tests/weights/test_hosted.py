from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ratchet.types import ConfigError, InputError, NotFound
from ratchet.weights.hosted import (
    HostedFailure,
    HostedJob,
    HostedSettings,
    JobFolder,
    cancel,
    connect,
    follow,
    job_for,
)
from ratchet.weights.hosted.job import HOSTED_TRANSITIONS
from tests.weights.fine_tuning_server import KEY, FineTuningServer, fine_tuning_server

ENVIRONMENT = {"OPENAI_API_KEY": KEY, "TOGETHER_API_KEY": KEY, "FIREWORKS_API_KEY": KEY}


@pytest.fixture
def server() -> Iterator[FineTuningServer]:
    with fine_tuning_server() as running:
        yield running


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sft.jsonl"
    path.write_text('{"messages": []}\n')
    return path


class Kept:
    """Where jobs are saved; it may fail, as a process that is killed does."""

    def __init__(self, killed_at: str = "") -> None:
        self.killed_at = killed_at
        self.last: HostedJob | None = None

    def __call__(self, job: HostedJob) -> None:
        if job.state == self.killed_at:
            self.killed_at = ""
            raise KeyboardInterrupt
        self.last = job


def made(server: FineTuningServer, file: Path, **options: Any) -> HostedJob:
    fields: dict[str, Any] = {
        "provider": "openai",
        "base_url": server.url,
        "model": "small",
        "method": "sft",
        "training_file": file,
        "validation_file": None,
        "hyperparameters": {},
        "suffix": "",
        "attempt": 0,
        "now": 1.0,
    }
    return job_for(**{**fields, **options})


def service(server: FineTuningServer, **options: Any) -> Any:
    return connect(HostedSettings(base_url=server.url, **options), ENVIRONMENT)


def followed(job: HostedJob, server: FineTuningServer, kept: Kept | None = None) -> HostedJob:
    return follow(job, service(server), kept or Kept(), sleep=lambda _: None)


def test_a_job_is_uploaded_started_and_watched_to_its_model(
    server: FineTuningServer, file: Path, tmp_path: Path
) -> None:
    validation = tmp_path / "val.jsonl"
    validation.write_text('{"messages": [1]}\n')
    said: list[str] = []
    job = made(
        server, file, validation_file=validation, hyperparameters={"n_epochs": 2}, suffix="mine"
    )
    ended = follow(
        job,
        service(server),
        Kept(),
        sleep=lambda _: None,
        on_status=lambda one: said.append(one.remote_status or one.state),
    )
    assert (ended.state, ended.trained_model) == ("succeeded", "ft:small:org::1")
    assert said == ["creating", "running", "validating_files", "queued", "running", "succeeded"]
    assert [*server.contents.values()] == [file.read_bytes(), validation.read_bytes()]
    assert server.jobs["ftjob-0"]["asked"] == {
        "model": "small",
        "training_file": "file-0",
        "validation_file": "file-1",
        "suffix": "mine",
        "method": {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 2}}},
    }


def test_pairs_are_trained_by_dpo(server: FineTuningServer, file: Path) -> None:
    followed(made(server, file, method="dpo", hyperparameters={"beta": 0.1}), server)
    method = server.jobs["ftjob-0"]["asked"]["method"]
    assert method == {"type": "dpo", "dpo": {"hyperparameters": {"beta": 0.1}}}


@pytest.mark.parametrize("state", ["creating", "running", "succeeded"])
def test_a_process_that_is_killed_uploads_and_starts_nothing_twice(
    server: FineTuningServer, file: Path, state: str
) -> None:
    job = made(server, file)
    kept = Kept(killed_at=state)
    with pytest.raises(KeyboardInterrupt):
        followed(job, server, kept)
    ended = followed(kept.last or job, server)
    assert ended.state == "succeeded"
    assert (len(server.files), len(server.jobs)) == (1, 1)


def test_a_start_without_an_answer_is_found_again(server: FineTuningServer, file: Path) -> None:
    server.fail["POST /fine_tuning/jobs"] = [0]
    kept = Kept()
    with pytest.raises(HostedFailure, match="cannot be reached"):
        followed(made(server, file), server, kept)
    assert kept.last is not None
    assert kept.last.state == "creating"
    assert server.requests.count("POST /fine_tuning/jobs") == 1
    assert followed(kept.last, server).state == "succeeded"


def test_a_job_can_be_cancelled_at_any_time(server: FineTuningServer, file: Path) -> None:
    job = made(server, file)
    assert cancel(job, service(server), Kept(), 2.0).state == "cancelled"
    assert not server.jobs
    server.statuses = ["running"]
    running = follow(job, service(server), Kept(), wait=False)
    assert running.state == "running"
    ended = cancel(running, service(server), Kept(), 2.0)
    assert (ended.state, server.jobs["ftjob-0"]["status"]) == ("cancelled", "cancelled")
    assert cancel(ended, service(server), Kept(), 3.0) == ended


def test_a_job_that_was_started_unseen_is_cancelled_at_the_service(
    server: FineTuningServer, file: Path
) -> None:
    kept = Kept(killed_at="running")
    with pytest.raises(KeyboardInterrupt):
        followed(made(server, file), server, kept)
    assert kept.last is not None
    assert cancel(kept.last, service(server), Kept(), 2.0).state == "cancelled"
    assert server.jobs["ftjob-0"]["status"] == "cancelled"


def test_a_wrong_key_is_named_and_never_shown(server: FineTuningServer, file: Path) -> None:
    wrong = connect(HostedSettings(base_url=server.url), {"OPENAI_API_KEY": "sk-wrong"})
    with pytest.raises(HostedFailure, match="refused the key") as found:
        follow(made(server, file), wrong, Kept())
    assert "sk-wrong" not in str(found.value)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        connect(HostedSettings(base_url=server.url), {})


def test_a_file_that_the_service_refuses_ends_with_its_reason(
    server: FineTuningServer, file: Path
) -> None:
    file.write_text("not json\n")
    with pytest.raises(HostedFailure, match="Invalid file format"):
        followed(made(server, file), server)


def test_a_service_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        from ratchet.weights.hosted.openai_api import OpenAIService

        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        with pytest.raises(HostedFailure, match="did not answer in time"):
            OpenAIService(url, KEY, timeout_s=0.05, retries=0).read("ftjob-0")


def test_training_data_that_changed_meanwhile_is_refused(
    server: FineTuningServer, file: Path
) -> None:
    job = made(server, file)
    file.write_text('{"messages": [2]}\n')
    with pytest.raises(InputError, match="has changed"):
        followed(job, server)
    with pytest.raises(InputError, match="no training data"):
        made(server, file.parent / "none.jsonl")


@pytest.mark.parametrize("kind", ["together", "fireworks"])
def test_other_providers_are_followed_likewise(kind: str, file: Path) -> None:
    with fine_tuning_server(kind) as server:
        there = connect(
            HostedSettings(provider=kind, base_url=server.url, account="me"), ENVIRONMENT
        )
        job = made(server, file, provider=kind, validation_file=file)
        for state in ("creating", "running"):  # killed after each request
            kept = Kept(killed_at=state)
            with pytest.raises(KeyboardInterrupt):
                follow(job, there, kept, sleep=lambda _: None)
            job = kept.last or job
        ended = follow(job, there, Kept(), sleep=lambda _: None)
        assert ended.state == "succeeded"
        assert ended.trained_model.endswith("/new")
        assert [*server.contents.values()] == [file.read_bytes()] * 2
        assert len(server.jobs) == 1
        second = made(server, file, provider=kind, attempt=1)
        running = follow(second, there, Kept(), wait=False)
        assert cancel(running, there, Kept(), 2.0).state == "cancelled"


@pytest.mark.parametrize("kind", ["together", "fireworks"])
def test_other_providers_refuse_in_sentences(kind: str, file: Path) -> None:
    with fine_tuning_server(kind) as server:
        environment = dict.fromkeys(ENVIRONMENT, "sk-wrong")
        settings = HostedSettings(provider=kind, base_url=server.url, account="me")
        with pytest.raises(HostedFailure, match=r"refused the key.*Incorrect"):
            follow(made(server, file), connect(settings, environment), Kept())


def test_jobs_are_kept_in_files_and_found_by_their_beginnings(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path / "jobs")
    job = HostedJob(
        id="ab12",
        provider="openai",
        base_url="http://x",
        model="small",
        method="sft",
        training_file="f",
        file_hashes=("h",),
    )
    assert folder.list() == []
    for each in (job, msgspec.structs.replace(job, id="ab34", remote_id="ft-9", created_at=2.0)):
        folder.save(each)
    assert [one.id for one in folder.list()] == ["ab34", "ab12"]
    assert folder.find("ab1") == job
    assert folder.find("ft-9").id == "ab34"
    assert folder.get("none") is None
    with pytest.raises(InputError, match="2 jobs"):
        folder.find("ab")
    with pytest.raises(NotFound):
        folder.find("x")
    (tmp_path / "jobs" / "bad.json").write_text("{")
    with pytest.raises(InputError, match=r"bad\.json"):
        folder.list()


def test_a_job_only_moves_as_the_table_allows(server: FineTuningServer, file: Path) -> None:
    for before, allowed in HOSTED_TRANSITIONS.items():
        job = msgspec.structs.replace(made(server, file), state=before)
        for after in HOSTED_TRANSITIONS:
            if after in allowed:
                assert job.moved(after).state == after
            else:
                with pytest.raises(ValueError, match=before):
                    job.moved(after)
