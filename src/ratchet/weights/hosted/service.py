"""The interface of a hosted service, and the steps of a job there.

A process may be killed between a request and the record of its answer. So before each request that
makes something, what it would make is looked for at the service: nothing is uploaded or started
twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import msgspec

from ratchet.types import InputError, RatchetError
from ratchet.weights.hosted.job import ENDED_STATES, HostedJob, file_hash

Save = Callable[[HostedJob], None]


class HostedFailure(RatchetError):
    """A hosted service cannot be reached, refuses a request, or could not train."""


class JobReport(NamedTuple):
    """A service's report on a job."""

    state: Literal["running", "succeeded", "failed", "cancelled"]
    status: str
    """The status in the service's words."""
    trained_model: str = ""
    error: str = ""


class HostedService(Protocol):
    """A service that trains models.

    Every method raises HostedFailure when the service cannot be reached or refuses.
    """

    def find_file(self, name: str) -> str | None:
        """Id of the uploaded file with this name; None if there is none."""

    def upload(self, path: Path, name: str) -> str:
        """Upload a file of training data; return its id."""

    def find_job(self, job: HostedJob) -> str | None:
        """Id of the job that was started with this job's training file; None if there is none."""

    def start(self, job: HostedJob) -> str:
        """Start the job; return its id."""

    def read(self, remote_id: str) -> JobReport:
        """The status of a job."""

    def cancel(self, remote_id: str) -> None:
        """Ask the service to cancel a job."""


class HostedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where to train; empty fields mean the provider's defaults."""

    provider: str = "openai"
    base_url: str = ""
    key_env: str = ""
    """Environment variable of the key."""
    account: str = ""
    """Fireworks' account id."""
    timeout_s: float = 60.0
    """Timeout of a request, in seconds."""


class HostedProvider(NamedTuple):
    """A hosted service that a package adds."""

    base_url: str
    key_env: str
    """Environment variable of the key."""
    connect: Callable[[HostedSettings, str, str], HostedService]
    """Takes the settings, the address and the key."""


def follow(
    job: HostedJob,
    service: HostedService,
    save: Save,
    *,
    wait: bool = True,
    interval_s: float = 10.0,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.time,
    on_status: Callable[[HostedJob], None] = lambda job: None,
) -> HostedJob:
    """Bring a job to its end from any state.

    Args:
        job: The job.
        service: Where it runs.
        save: Stores the job durably; called before anything depends on the new state.
        wait: Whether to wait for its end; else it is started and read once.
        interval_s: Seconds between two questions.
        sleep: Waits so many seconds.
        clock: Unix seconds.
        on_status: Called with the job when its state, or what the service says of it, changes.

    Raises:
        HostedFailure: The service cannot be reached or refuses. The job stays where it is.
        InputError: A file that is not uploaded yet was changed.
    """

    def keep(after: HostedJob) -> HostedJob:
        stamped = msgspec.structs.replace(after, updated_at=clock())
        save(stamped)
        on_status(stamped)
        return stamped

    while job.state not in ENDED_STATES:
        if job.state == "uploading":
            job = keep(_uploaded(job, service))
        elif job.state == "creating":
            remote_id = service.find_job(job) or service.start(job)
            job = keep(job.moved("running", remote_id=remote_id))
        else:
            after = _as_reported(job, service.read(job.remote_id))
            if after != job:
                job = keep(after)
            if job.state not in ENDED_STATES:
                if not wait:
                    break
                sleep(interval_s)
    return job


def cancel(job: HostedJob, service: HostedService, save: Save, now: float) -> HostedJob:
    """Cancel a job; return it as the service then reports it.

    Raises:
        HostedFailure: The service cannot be reached or refuses.
    """
    if job.state in ENDED_STATES:
        return job
    if job.state == "creating":  # it may have been started by a process that was killed
        remote_id = service.find_job(job)
        if remote_id is not None:
            job = job.moved("running", remote_id=remote_id)
    if job.remote_id:
        service.cancel(job.remote_id)
        job = _as_reported(job, service.read(job.remote_id))
    else:
        job = job.moved("cancelled")
    job = msgspec.structs.replace(job, updated_at=now)
    save(job)
    return job


def _uploaded(job: HostedJob, service: HostedService) -> HostedJob:
    ids: list[str] = []
    hashes = [
        file_hash(Path(path)) if path else "" for path in (job.training_file, job.validation_file)
    ]
    if [digest for digest in hashes if digest] != list(job.file_hashes):
        raise InputError(
            f"The training data of job {job.id[:8]} has changed since the job was created.",
            hint="Start a new one: ratchet train start FILE.",
        )
    for path, name in (
        (job.training_file, job.name_of("train")),
        (job.validation_file, job.name_of("val")),
    ):
        ids.append((service.find_file(name) or service.upload(Path(path), name)) if path else "")
    return job.moved("creating", training_id=ids[0], validation_id=ids[1])


def _as_reported(job: HostedJob, report: JobReport) -> HostedJob:
    changes = {
        "remote_status": report.status,
        "trained_model": report.trained_model,
        "error": report.error,
    }
    if report.state == "running":
        return msgspec.structs.replace(job, **changes)
    return job.moved(report.state, **changes)
