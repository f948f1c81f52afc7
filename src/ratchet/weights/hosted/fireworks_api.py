"""Fireworks' datasets and supervised fine-tuning jobs, as its Python client 1.2 uses them.

Ids are the caller's own there, so a request that is sent again meets what the first one made.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ratchet.types import InputError
from ratchet.weights.hosted.job import HostedJob
from ratchet.weights.hosted.rest import Rest
from ratchet.weights.hosted.service import HostedProvider, JobReport

_ENDED: dict[str, Literal["failed", "cancelled"]] = {
    "JOB_STATE_FAILED": "failed",
    "JOB_STATE_EXPIRED": "failed",
    "JOB_STATE_CANCELLED": "cancelled",
    "JOB_STATE_DELETING": "cancelled",
}


class FireworksService:
    """Trains at Fireworks.

    Args:
        api: Its API; the address ends with `/v1`.
        account: The account's id.
    """

    def __init__(self, api: Rest, account: str) -> None:
        if not account:
            raise InputError(
                "Fireworks needs your account id.",
                hint='Set it in ratchet.toml:\n\n[train]\naccount = "…"\n',
            )
        self._rest = api
        self._account = f"/accounts/{account}"

    def find_file(self, name: str) -> str | None:
        """Name of the dataset if it was completely uploaded under this name; None if not."""
        for dataset in self._rest.get(f"{self._account}/datasets", params={"pageSize": 200}).get(
            "datasets", []
        ):
            if dataset.get("displayName") == name and dataset.get("state") == "READY":
                return str(dataset["name"])
        return None

    def upload(self, path: Path, name: str) -> str:
        """Create a dataset and upload its file; return its name."""
        content = path.read_bytes()
        id = name.removesuffix(".jsonl")
        listing = self._rest.get(f"{self._account}/datasets", params={"pageSize": 200})
        full_name = f"{self._account.lstrip('/')}/datasets/{id}"
        if full_name not in [uploaded.get("name") for uploaded in listing.get("datasets", [])]:
            count = str(len(content.splitlines()))
            dataset = {
                "displayName": name,
                "exampleCount": count,
                "format": "CHAT",
                "userUploaded": {},
            }
            self._rest.post(f"{self._account}/datasets", json={"datasetId": id, "dataset": dataset})
        self._rest.post(f"{self._account}/datasets/{id}:upload", files={"file": (name, content)})
        return full_name

    def find_job(self, job: HostedJob) -> str | None:
        """Name of the job that was started with this job's dataset; None if there is none."""
        listing = self._rest.get(
            f"{self._account}/supervisedFineTuningJobs", params={"pageSize": 200}
        )
        names = [
            remote_job["name"]
            for remote_job in listing.get("supervisedFineTuningJobs", [])
            if remote_job.get("dataset") == job.training_id
        ]
        return str(names[0]) if names else None

    def start(self, job: HostedJob) -> str:
        """Start the job; return its name.

        Raises:
            InputError: It learns from pairs.
        """
        if job.method != "sft":
            raise InputError(
                "Ratchet does not support training on pairs at Fireworks.",
                hint="Use --method sft, or another provider.",
            )
        body = {
            "dataset": job.training_id,
            "baseModel": job.model,
            **({"evaluationDataset": job.validation_id} if job.validation_id else {}),
            **({"displayName": job.suffix} if job.suffix else {}),
            **job.hyperparameters,
        }
        return str(self._rest.post(f"{self._account}/supervisedFineTuningJobs", json=body)["name"])

    def read(self, remote_id: str) -> JobReport:
        """The status of a job."""
        remote_job = self._rest.get(f"/{remote_id}")
        state = str(remote_job.get("state", ""))
        error = str((remote_job.get("status") or {}).get("message", ""))
        if state == "JOB_STATE_COMPLETED":
            name = remote_job.get("outputModel")
            if not name:
                return JobReport("failed", state, error="The service named no new model.")
            return JobReport("succeeded", state, str(name))
        if state in _ENDED:
            return JobReport(_ENDED[state], state, error=error)
        return JobReport("running", state)

    def cancel(self, remote_id: str) -> None:
        """Ask the service to cancel a job."""
        self._rest.post(f"/{remote_id}:cancel", json={})


FIREWORKS = HostedProvider(
    "https://api.fireworks.ai/v1",
    "FIREWORKS_API_KEY",
    lambda settings, url, key: FireworksService(
        Rest(url, key, timeout_s=settings.timeout_s), settings.account
    ),
)
