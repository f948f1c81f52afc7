"""Tasks and datasets: inputs for the agent, versioned, with where they came from."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from ratchet.types.hashing import content_hash

Split: TypeAlias = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = ("train", "val", "test")

Provenance: TypeAlias = Literal["captured", "synthesized", "curated"]


class Task(msgspec.Struct, frozen=True):
    """One input for the agent."""

    id: str
    """Unique within its dataset."""
    input: Any
    """What the agent is called with; any JSON value."""
    expected: Any = None
    """The answer, or answers, that evaluators compare with; None when unknown."""
    metadata: dict[str, Any] = {}

    def content(self) -> str:
        """Content hash of input, expected answer and metadata: what a rollout depends on."""
        return content_hash([self.input, self.expected, self.metadata])


class Dataset(msgspec.Struct, frozen=True):
    """A versioned list of tasks, split without leaks."""

    name: str
    tasks: tuple[Task, ...]
    splits: dict[str, Split]
    """Split by task id; every task has one."""
    provenance: Provenance = "curated"

    @property
    def version(self) -> str:
        """Content hash of the tasks and their splits."""
        return content_hash(
            [[t.id, t.content(), self.splits[t.id]] for t in sorted(self.tasks, key=_by_id)]
        )

    def split(self, name: Split) -> tuple[Task, ...]:
        """The tasks of one split, in the dataset's order."""
        return tuple(t for t in self.tasks if self.splits[t.id] == name)


def _by_id(task: Task) -> str:
    return task.id
