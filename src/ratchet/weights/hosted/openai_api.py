"""Any service with OpenAI's files and fine-tuning API."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ratchet.weights.hosted.job import HostedJob
from ratchet.weights.hosted.service import HostedFailure, HostedProvider, JobReport

Result = TypeVar("Result")

_METHODS = {"sft": "supervised", "dpo": "dpo"}
_NEWEST = 1_000
"""Maximum number of files and of jobs to search, newest first."""


class OpenAIService:
    """Trains at OpenAI, or at a compatible service.

    Args:
        base_url: Its address.
        key: Its key.
        timeout_s: Seconds for one response.
        retries: How often a request that may be repeated is.
    """

    def __init__(
        self, base_url: str, key: str, *, timeout_s: float = 60.0, retries: int = 4
    ) -> None:
        import openai

        self._openai = openai
        self._url = base_url
        self._client = openai.OpenAI(
            base_url=base_url, api_key=key, timeout=timeout_s, max_retries=retries
        )
        # What makes something is not repeated blindly: it may have been made.
        self._once = self._client.with_options(max_retries=0)

    def find_file(self, name: str) -> str | None:
        """Id of the uploaded file with this name; None if there is none."""

        def work() -> str | None:
            for number, file in enumerate(self._client.files.list(purpose="fine-tune")):
                if file.filename == name and file.status != "error":
                    return file.id
                if number >= _NEWEST:
                    break
            return None

        return self._asked(work)

    def upload(self, path: Path, name: str) -> str:
        """Upload a file of training data; return its id."""
        with path.open("rb") as file:
            return self._asked(
                lambda: self._once.files.create(file=(name, file), purpose="fine-tune").id
            )

    def find_job(self, job: HostedJob) -> str | None:
        """Id of the job that was started with this job's training file; None if there is none."""

        def work() -> str | None:
            for number, remote_job in enumerate(self._client.fine_tuning.jobs.list()):
                if remote_job.training_file == job.training_id:
                    return remote_job.id
                if number >= _NEWEST:
                    break
            return None

        return self._asked(work)

    def start(self, job: HostedJob) -> str:
        """Start the job; return its id."""
        kind = _METHODS[job.method]
        options: dict[str, Any] = {
            "model": job.model,
            "training_file": job.training_id,
            # Not by name: the client has it since 1.56 only.
            "extra_body": {
                "method": {"type": kind, kind: {"hyperparameters": job.hyperparameters}}
            },
        }
        if job.validation_id:
            options["validation_file"] = job.validation_id
        if job.suffix:
            options["suffix"] = job.suffix
        return self._asked(lambda: self._once.fine_tuning.jobs.create(**options).id)

    def read(self, remote_id: str) -> JobReport:
        """The status of a job."""
        remote_job = self._asked(lambda: self._client.fine_tuning.jobs.retrieve(remote_id))
        error = (remote_job.error.message if remote_job.error else "") or ""
        if remote_job.status == "succeeded":
            if not remote_job.fine_tuned_model:
                return JobReport(
                    "failed", remote_job.status, error="The service named no new model."
                )
            return JobReport("succeeded", remote_job.status, remote_job.fine_tuned_model)
        if remote_job.status in ("failed", "cancelled"):
            return JobReport(remote_job.status, remote_job.status, error=error)
        return JobReport("running", remote_job.status)

    def cancel(self, remote_id: str) -> None:
        """Ask the service to cancel a job."""
        self._asked(lambda: self._client.fine_tuning.jobs.cancel(remote_id))

    def _asked(self, work: Callable[[], Result]) -> Result:
        """The response; errors are raised as sentences.

        Raises:
            HostedFailure: There is none.
        """
        openai = self._openai
        try:
            return work()
        except openai.APITimeoutError:
            raise HostedFailure(
                f"{self._url} did not answer in time.", hint="Run the same command again."
            ) from None
        except openai.APIConnectionError as error:
            raise HostedFailure(
                f"{self._url} cannot be reached: {error.__cause__ or error}.",
                hint="Run the same command again.",
            ) from None
        except openai.APIStatusError as error:
            raise refusal(self._url, error.status_code, _message(error)) from None
        except (openai.OpenAIError, ValueError, TypeError, AttributeError) as error:
            raise HostedFailure(
                f"{self._url} does not answer like OpenAI's API: {type(error).__name__}.",
                hint="Check base_url under [train] in ratchet.toml.",
            ) from None


def refusal(url: str, status: int, message: str) -> HostedFailure:
    """An error status as a sentence with a remedy."""
    detail = f" It says: {message[:500]}" if message else ""
    if status in (401, 403):
        return HostedFailure(
            f"{url} refused the key (HTTP {status}).{detail}",
            hint="Set the variable that key_env under [train] names to a key with permission to "
            "train.",
        )
    if status == 429:
        return HostedFailure(
            f"{url} limits the rate of requests, or your quota is used up (HTTP 429).{detail}",
            hint="Run the same command again later.",
        )
    if status >= 500:
        return HostedFailure(
            f"{url} failed (HTTP {status}).{detail}", hint="Run the same command again later."
        )
    return HostedFailure(f"{url} refused the request (HTTP {status}).{detail}")


def _message(error: Any) -> str:
    body = error.body
    if isinstance(body, dict) and isinstance(body.get("message"), str):
        return str(body["message"])
    return ""


OPENAI = HostedProvider(
    "https://api.openai.com/v1",
    "OPENAI_API_KEY",
    lambda settings, url, key: OpenAIService(url, key, timeout_s=settings.timeout_s),
)
