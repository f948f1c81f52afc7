"""Together's fine-tuning API, as its Python client 3.1 uses it."""

from __future__ import annotations

from pathlib import Path

from ratchet.weights.hosted.job import HostedJob
from ratchet.weights.hosted.rest import Rest
from ratchet.weights.hosted.service import HostedFailure, HostedProvider, JobReport


class TogetherService:
    """Trains at Together.

    Args:
        api: Its API; the address ends with `/v1`.
    """

    def __init__(self, api: Rest) -> None:
        self._rest = api

    def find_file(self, name: str) -> str | None:
        """Id of the uploaded file with this name; None if there is none."""
        files = self._rest.get("/files").get("data", [])
        ids = [file["id"] for file in files if file.get("filename") == name]
        return ids[0] if ids else None

    def upload(self, path: Path, name: str) -> str:
        """Upload a file of training data to the service's upload address; return its id."""
        response = self._rest.send(
            "POST",
            "/files",
            data={"purpose": "fine-tune", "file_name": name, "file_type": "jsonl"},
            follow_redirects=False,
        )
        place, id = response.headers.get("Location"), response.headers.get("X-Together-File-Id")
        if not place or not id:
            raise HostedFailure(f"{self._rest.url} did not name an upload address.")
        self._rest.put_elsewhere(place, path.read_bytes())
        self._rest.post(f"/files/{id}/preprocess")
        return str(id)

    def find_job(self, job: HostedJob) -> str | None:
        """Id of the job that was started with this job's training file; None if there is none."""
        jobs = self._rest.get("/fine-tunes").get("data", [])
        ids = [
            remote_job["id"]
            for remote_job in jobs
            if remote_job.get("training_file") == job.training_id
        ]
        return str(ids[0]) if ids else None

    def start(self, job: HostedJob) -> str:
        """Start the job; return its id."""
        method = (
            {"method": "sft", "train_on_inputs": False}
            if job.method == "sft"
            else {"method": "dpo"}
        )
        body = {
            "model": job.model,
            "training_file": job.training_id,
            "training_method": method,
            **({"validation_file": job.validation_id} if job.validation_id else {}),
            **({"suffix": job.suffix} if job.suffix else {}),
            **job.hyperparameters,
        }
        return str(self._rest.post("/fine-tunes", json=body)["id"])

    def read(self, remote_id: str) -> JobReport:
        """The status of a job."""
        remote_job = self._rest.get(f"/fine-tunes/{remote_id}")
        status = str(remote_job.get("status", ""))
        if status == "completed":
            name = remote_job.get("model_output_name")
            if not name:
                return JobReport("failed", status, error="The service named no new model.")
            return JobReport("succeeded", status, str(name))
        if status == "cancelled":
            return JobReport("cancelled", status)
        if status == "error":
            events = [str(event.get("message", "")) for event in remote_job.get("events") or ()]
            return JobReport("failed", status, error=events[-1] if events else "")
        return JobReport("running", status)

    def cancel(self, remote_id: str) -> None:
        """Ask the service to cancel a job."""
        self._rest.post(f"/fine-tunes/{remote_id}/cancel")


TOGETHER = HostedProvider(
    "https://api.together.xyz/v1",
    "TOGETHER_API_KEY",
    lambda settings, url, key: TogetherService(Rest(url, key, timeout_s=settings.timeout_s)),
)
