"""Tasks and datasets: versioned inputs for the agent, with their provenance."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from ratchet.types.hashing import content_hash

Split: TypeAlias = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = ("train", "val", "test")

Provenance: TypeAlias = Literal["captured", "synthesized", "curated"]


class Origin(msgspec.Struct, frozen=True):
    """Where a task comes from."""

    made: Provenance = "curated"
    by: str = ""
    """The method, such as `import`, `correction` or `boundary values`."""
    sources: tuple[str, ...] = ()
    """Ids of the traces, rollouts or tasks that it was made from."""
    at: float = 0.0
    """Unix seconds; 0 if unknown."""


class Task(msgspec.Struct, frozen=True):
    """An input for the agent."""

    id: str
    """Unique within its dataset."""
    input: Any
    """Argument of the agent; any JSON value."""
    expected: Any = None
    """The expected answer or answers, for evaluators; None if unknown."""
    metadata: dict[str, Any] = {}
    origin: Origin = Origin()
    """Where it comes from; not part of its content."""

    def content(self) -> str:
        """Content hash of input, expected answer and metadata, which determine a rollout."""
        return content_hash([self.input, self.expected, self.metadata])


class Dataset(msgspec.Struct, frozen=True):
    """A versioned list of tasks, split so that none leaks from one split into another."""

    name: str
    tasks: tuple[Task, ...]
    splits: dict[str, Split]
    """Split by task id; covers every task."""
    provenance: Provenance = "curated"
    parent: str = ""
    """Version that it was made from; empty for a first version."""
    reason: str = ""
    """What has changed since that version, in a sentence."""

    @property
    def version(self) -> str:
        """Content hash of the tasks and their splits."""
        return content_hash(
            [[t.id, t.content(), self.splits[t.id]] for t in sorted(self.tasks, key=_by_id)]
        )

    def split(self, name: Split, *, answered: bool = False) -> tuple[Task, ...]:
        """Return the tasks of one split, in the dataset's order.

        Args:
            name: The split.
            answered: Only those with an expected answer.
        """
        return tuple(
            task
            for task in self.tasks
            if self.splits[task.id] == name and not (answered and task.expected is None)
        )


class DatasetSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a dataset without its tasks."""

    name: str
    version: str
    tasks: int
    splits: dict[str, int]
    """Number of tasks by split."""
    provenance: Provenance = "curated"
    parent: str = ""
    reason: str = ""
    versions: int = 1
    """Number of versions of this name."""
    created_at: float = 0.0
    """Unix seconds."""
    put_at: float = 0.0
    """When it was last stored, in Unix seconds; the latest version of a name is the dataset."""


def _by_id(task: Task) -> str:
    return task.id
