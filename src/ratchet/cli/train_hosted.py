"""`ratchet train start`, `watch`, `cancel` and `jobs`: a model trained on a hosted service."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ratchet.autopilot import Project
from ratchet.cli.console import Folder, Interrupted, Json, out, print_json, project_in, short, table
from ratchet.cli.errors import err
from ratchet.types import ConfigError, InputError, Model
from ratchet.weights.hosted import (
    HostedFailure,
    HostedJob,
    HostedSettings,
    JobFolder,
    address_of,
    connect,
    follow,
    job_for,
)
from ratchet.weights.hosted import cancel as cancel_job

JobId = Annotated[
    str,
    typer.Argument(
        metavar="JOB", help="The job's id, Ratchet's or the service's, or the start of it."
    ),
]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the job to end.")]
Interval = Annotated[float, typer.Option(min=0.1, help="Seconds between polls.")]


def start(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Training data in the openai format.")
    ],
    validation: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Validation data.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="The model to start from; by default model under \\[train] in ratchet.toml."
        ),
    ] = None,
    method: Annotated[str, typer.Option(help="sft or dpo.")] = "sft",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A hyperparameter. Repeatable."),
    ] = None,
    suffix: Annotated[str, typer.Option(help="Text to include in the new model's name.")] = "",
    wait: Wait = True,
    interval: Interval = 10.0,
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """Upload training data and train a model on a hosted service.

    The service is that of the section train of ratchet.toml; OpenAI by default. A command that was
    stopped goes on where it was: nothing is uploaded or started twice.

    Examples:

      ratchet train start sft.jsonl --validation sft-val.jsonl --model MODEL

      ratchet train start pairs.jsonl --method dpo --set beta=0.1 --set n_epochs=2 --no-wait
    """
    if method not in ("sft", "dpo"):
        raise InputError(f"--method {method!r} is not one of sft, dpo.")
    project = project_in(folder)
    settings = _settings(project)
    base = model or project.config.train.model
    if base is None:
        raise ConfigError(
            "No model to start from was given.",
            hint='Give --model NAME, or in ratchet.toml:\n\n[train]\nmodel = "…"\n',
        )
    jobs = _jobs(project)
    kind: Literal["sft", "dpo"] = "dpo" if method == "dpo" else "sft"
    for attempt in itertools.count():
        job = job_for(
            provider=settings.provider,
            base_url=address_of(settings),
            model=base,
            method=kind,
            training_file=file,
            validation_file=validation,
            hyperparameters=_hyperparameters(set_ or []),
            suffix=suffix,
            attempt=attempt,
            now=time.time(),
        )
        stored = jobs.get(job.id)
        if stored is None or stored.state not in ("failed", "cancelled"):
            job = stored or job
            break
    service = connect(settings, os.environ)
    project.prepare_state()
    jobs.save(job)
    _follow(project, job, service, wait=wait, interval=interval, json=json)


def watch(
    job: JobId,
    wait: Wait = True,
    interval: Interval = 10.0,
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """Wait for a hosted job, and store its new model.

    Examples:

      ratchet train watch 1f6c09ad

      ratchet train watch ftjob-abc123 --no-wait --json
    """
    project = project_in(folder)
    training = _jobs(project).find(job)
    service = connect(_settings_of(project, training), os.environ)
    _follow(project, training, service, wait=wait, interval=interval, json=json)


def cancel(job: JobId, folder: Folder = Path("."), json: Json = False) -> None:
    """Cancel a hosted job.

    Examples:

      ratchet train cancel 1f6c09ad
    """
    project = project_in(folder)
    jobs = _jobs(project)
    training = jobs.find(job)
    service = connect(_settings_of(project, training), os.environ)
    ended = cancel_job(training, service, jobs.save, time.time())
    _say_end(project, ended, json)


def jobs(folder: Folder = Path("."), json: Json = False) -> None:
    """List the hosted jobs of this project, newest first.

    Examples:

      ratchet train jobs
    """
    listed = _jobs(project_in(folder)).list()
    if json:
        print_json({"jobs": listed})
        return
    if not listed:
        out.print("There is no hosted job yet. Start one: ratchet train start FILE --model NAME")
        return
    rows = table("id", "provider", "model", "method", "state", "result")
    for job in listed:
        rows.add_row(
            short(job.id),
            job.provider,
            job.model,
            job.method,
            job.remote_status or job.state,
            job.trained_model or job.error,
        )
    out.print(rows, markup=False)


def _settings(project: Project) -> HostedSettings:
    section = project.config.train
    return HostedSettings(
        provider=section.provider,
        base_url=section.base_url or "",
        key_env=section.key_env or "",
        account=section.account or "",
        timeout_s=section.timeout_s,
    )


def _settings_of(project: Project, job: HostedJob) -> HostedSettings:
    """The project's settings, which must still be those of the job's service."""
    settings = _settings(project)
    if (settings.provider, address_of(settings)) != (job.provider, job.base_url):
        raise ConfigError(
            f"Job {short(job.id)} is at {job.provider} ({job.base_url}), but [train] names "
            "another service.",
            hint="Restore provider and base_url under [train] until the job is done.",
        )
    return settings


def _jobs(project: Project) -> JobFolder:
    return JobFolder(project.state / "hosted-jobs")


def _hyperparameters(options: list[str]) -> dict[str, Any]:
    hyperparameters: dict[str, Any] = {}
    for option in options:
        name, equals, text = option.partition("=")
        if not (name.isidentifier() and equals and text):
            raise InputError(
                f"--set {option!r} is not a setting.", hint="Write for example --set n_epochs=3."
            )
        hyperparameters[name] = _number(text)
    return hyperparameters


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _follow(
    project: Project, job: HostedJob, service: Any, *, wait: bool, interval: float, json: bool
) -> None:
    def say(job: HostedJob) -> None:
        if not json:
            at = f" ({job.remote_id})" if job.remote_id else ""
            out.print(f"{short(job.id)}{at}: {job.remote_status or job.state}", markup=False)

    try:
        job = follow(
            job, service, _jobs(project).save, wait=wait, interval_s=interval, on_status=say
        )
    except KeyboardInterrupt:
        err.print(f"Continue later: ratchet train watch {short(job.id)}", markup=False)
        raise Interrupted("Interrupted. The job continues on the service.") from None
    _say_end(project, job, json)


def _say_end(project: Project, job: HostedJob, json: bool) -> None:
    """Store the result of a job, and print it."""
    version = ""
    if job.state == "succeeded":
        model = Model(model=job.trained_model, base_url=job.base_url)
        with project.open_store() as store:
            version = store.resources.put("model", model, time.time())
    if json:
        print_json({"job": job, "model_version": version})
    elif job.state == "succeeded":
        out.print(
            f"The new model is {job.trained_model}, version {short(version)} of the resource "
            "model. Prove it against the current model before you use it.",
            markup=False,
        )
    elif job.state == "running":
        out.print(f"Continue later: ratchet train watch {short(job.id)}", markup=False)
    elif job.state == "cancelled":
        out.print("The job was cancelled.", markup=False)
    if job.state == "failed":
        why = f": {job.error}" if job.error else "."
        raise HostedFailure(f"{job.provider} could not train the model{why}")
