"""Frozen sets: kept in versions, chosen worst first, and refused when somebody was faster."""

from __future__ import annotations

import msgspec
import pytest

from ratchet.store import Store
from ratchet.types import Conflict, FrozenSet, Task


def frozen_set(id: str, *, loss: float = 0.1, at: float = 1.0, project: str = "p") -> FrozenSet:
    tasks = (Task("t1", "2 + 2", 4),)
    return FrozenSet(
        id=id, project=project, problem_id="x", title="sums", tasks=tasks, loss=loss, created_at=at
    )  # fmt: skip


def test_the_sets_of_a_project_come_worst_first_then_newest(store: Store) -> None:
    for kept in (
        frozen_set("old", at=1.0),
        frozen_set("new", at=2.0),
        frozen_set("worst", loss=0.5),
        frozen_set("other", project="q"),
    ):
        store.frozen_sets.put(kept)
    assert [kept.id for kept in store.frozen_sets.of_project("p")] == ["worst", "new", "old"]


def test_a_change_of_a_version_that_is_not_the_last_is_refused(store: Store) -> None:
    first = frozen_set("s")
    store.frozen_sets.put(first)
    mine, theirs = (
        msgspec.structs.replace(first, title=title, version=2) for title in ("mine", "theirs")
    )
    store.frozen_sets.put(theirs)
    with pytest.raises(Conflict, match="is at version 2, not 1"):
        store.frozen_sets.put(mine)
    store.frozen_sets.put(theirs)  # the answer to the first commit was lost
    assert store.frozen_sets.get("s") == theirs
