"""A hosted job: what to train on which data, and its status."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from ratchet.types import InputError, content_hash

HostedState: TypeAlias = Literal[
    "uploading", "creating", "running", "succeeded", "failed", "cancelled"
]

HOSTED_TRANSITIONS: dict[HostedState, frozenset[HostedState]] = {
    "uploading": frozenset({"creating", "cancelled"}),
    "creating": frozenset({"running", "cancelled"}),
    "running": frozenset({"succeeded", "failed", "cancelled"}),
    "succeeded": frozenset(),
    "failed": frozenset(),
    "cancelled": frozenset(),
}
"""Allowed state transitions. A state without successors is final."""

ENDED_STATES = frozenset(state for state, after in HOSTED_TRANSITIONS.items() if not after)


class HostedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A fine-tuning job at a hosted service."""

    id: str
    """Content hash of what determines the result: the same files and settings make the same job."""
    provider: str
    base_url: str
    model: str
    """The model to start from, by the service's name for it."""
    method: Literal["sft", "dpo"]
    training_file: str
    """Absolute path."""
    validation_file: str = ""
    file_hashes: tuple[str, ...]
    """SHA-256 of the files."""
    hyperparameters: dict[str, Any] = {}
    suffix: str = ""
    """Included in the new model's name."""
    state: HostedState = "uploading"
    training_id: str = ""
    """The training file's id at the service."""
    validation_id: str = ""
    remote_id: str = ""
    """The job's id at the service."""
    remote_status: str = ""
    """The status in the service's words."""
    trained_model: str = ""
    """The new model's name at the service."""
    error: str = ""
    created_at: float = 0.0
    """Unix seconds."""
    updated_at: float = 0.0
    """Unix seconds."""

    def moved(self, state: HostedState, **changes: Any) -> HostedJob:
        """The job in its next state.

        Raises:
            ValueError: The table does not allow the move.
        """
        if state not in HOSTED_TRANSITIONS[self.state]:
            raise ValueError(f"A hosted job cannot go from {self.state} to {state}.")
        return msgspec.structs.replace(self, state=state, **changes)

    def name_of(self, part: Literal["train", "val"]) -> str:
        """The name of an uploaded file, by which it is found again."""
        return f"ratchet-{self.id[:16]}-{part}.jsonl"


def job_for(
    *,
    provider: str,
    base_url: str,
    model: str,
    method: Literal["sft", "dpo"],
    training_file: Path,
    validation_file: Path | None,
    hyperparameters: dict[str, Any],
    suffix: str,
    attempt: int,
    now: float,
) -> HostedJob:
    """A job that has not begun.

    Args:
        provider: The service.
        base_url: Its address.
        model: The model to start from.
        method: How it learns.
        training_file: The training data.
        validation_file: The validation data, if any.
        hyperparameters: As the service names them.
        suffix: Part of the new model's name.
        attempt: Number of jobs of the same content that failed or were cancelled.
        now: Unix seconds.

    Raises:
        InputError: A file is missing or empty.
    """
    files = [training_file, *([validation_file] if validation_file else [])]
    hashes = tuple(map(file_hash, files))
    settings = [provider, base_url, model, method, hyperparameters, suffix, attempt]
    return HostedJob(
        id=content_hash([*settings, *hashes]),
        provider=provider,
        base_url=base_url,
        model=model,
        method=method,
        training_file=str(training_file.resolve()),
        validation_file=str(validation_file.resolve()) if validation_file else "",
        file_hashes=hashes,
        hyperparameters=hyperparameters,
        suffix=suffix,
        created_at=now,
        updated_at=now,
    )


def file_hash(path: Path) -> str:
    """SHA-256 of a file of training data.

    Raises:
        InputError: It is missing or empty.
    """
    if not path.is_file() or path.stat().st_size == 0:
        raise InputError(
            f"There is no training data in {path}.",
            hint="Write it with: ratchet train export FILE.",
        )
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
