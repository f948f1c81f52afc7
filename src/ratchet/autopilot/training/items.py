"""Datasets of the trainer: maps arbitrary items to tasks and back."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from ratchet.observe import plain
from ratchet.types import Dataset, InputError, Split, Task, content_hash

VAL_SHARE = 1 / 3
"""Share of the train items used as val when no val dataset is given."""


class Items:
    """The items of a train and a val dataset, and their tasks.

    Args:
        train: Items to learn from; anything that can be iterated or indexed.
        val: Items to select by; a third of train by default.
        seed: Seed of that split.

    Raises:
        InputError: A dataset is empty or missing, or an item is in both.
    """

    def __init__(self, train: Any, val: Any, *, seed: int) -> None:
        learn_from = _listed("train_dataset", train)
        if val is None:
            if len(learn_from) < 2:
                raise InputError(
                    "train_dataset has only one item, so none is left for val.",
                    hint="Give more items, or a val_dataset.",
                )
            random.Random(seed).shuffle(learn_from)  # noqa: S311 - reproducible, not secret
            count = max(1, round(len(learn_from) * VAL_SHARE))
            choose_by, learn_from = learn_from[:count], learn_from[count:]
        else:
            choose_by = _listed("val_dataset", val)
        self._items: dict[str, Any] = {}
        self._modes: dict[str, Literal["train", "val"]] = {}
        self.train = self._tasks("train", learn_from)
        self.val = self._tasks("val", choose_by)

    @property
    def dataset(self) -> Dataset:
        """Both datasets as one."""
        splits: dict[str, Split] = {task.id: "train" for task in self.train}
        splits.update((task.id, "val") for task in self.val)
        return Dataset(name="trainer", tasks=(*self.train, *self.val), splits=splits)

    def of(self, task_input: Any) -> Any:
        """The item of a task's input."""
        return self._items.get(content_hash(task_input), task_input)

    def mode(self, task_input: Any) -> Literal["train", "val"]:
        """The dataset it belongs to."""
        return self._modes.get(content_hash(task_input), "train")

    def _tasks(self, mode: Literal["train", "val"], items: Sequence[Any]) -> tuple[Task, ...]:
        tasks: dict[str, Task] = {}
        for item in items:
            stands_for = plain(item)
            key = content_hash(stands_for)
            if self._modes.get(key, mode) != mode:
                raise InputError(
                    f"An item is in both train_dataset and val_dataset: {str(item)[:200]}",
                    hint="Remove it from one of them: an item used for learning proves nothing.",
                )
            self._items[key], self._modes[key] = item, mode
            # Equal items are one task: rollouts of equal tasks are shared anyway.
            tasks[key] = Task(id=f"{mode}-{key[:12]}", input=stands_for)
        return tuple(tasks.values())


def _listed(name: str, tasks: Any) -> list[Any]:
    if tasks is None:
        raise InputError(f"fit() needs a {name}: a list of tasks.")
    if isinstance(tasks, (str, bytes)) or not (
        isinstance(tasks, Iterable) or hasattr(tasks, "__getitem__")
    ):
        raise InputError(f"{name} is a list of tasks, not {type(tasks).__name__}.")
    if isinstance(tasks, Iterable):
        items = list(tasks)
    else:  # sized and indexed, such as a map-style dataset of PyTorch
        items = [tasks[index] for index in range(len(tasks))]
    if not items:
        raise InputError(f"{name} is empty.")
    return items
