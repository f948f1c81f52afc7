"""Datasets are found by name and version, listed, and never overwritten by a stale change."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ratchet.store import Store
from ratchet.types import Conflict, Dataset, InputError, NotFound, Task

OLD = Dataset("d", (Task("t", 1),), {"t": "train"}, reason="the first")
NEW = Dataset(
    "d", (Task("t", 1), Task("u", 2)), {"t": "train", "u": "val"}, parent=OLD.version, reason="more"
)


def test_a_name_is_the_latest_version_and_a_version_is_named_by_its_beginning(
    store: Store,
) -> None:
    store.datasets.put(OLD, now=1.0)
    store.datasets.put(NEW, now=2.0)
    assert store.datasets.named("d") == NEW
    assert store.datasets.named(f"d@{OLD.version[:8]}") == OLD
    for missing in ("e", "d@ffffffffffff", f"e@{OLD.version[:8]}"):
        with pytest.raises(NotFound, match=f"no dataset '{missing}'"):
            store.datasets.named(missing)


def test_a_beginning_that_several_versions_share_is_refused(store: Store) -> None:
    versions: dict[str, Dataset] = {}
    for n in range(17):  # two of these begin with the same digit
        dataset = Dataset("d", (Task("t", n),), {"t": "train"})
        store.datasets.put(dataset, now=float(n))
        if (digit := dataset.version[0]) in versions:
            with pytest.raises(InputError, match="Several versions of the dataset 'd'"):
                store.datasets.named(f"d@{digit}")
            return
        versions[digit] = dataset
    pytest.fail("seventeen versions have distinct first digits")


def test_each_dataset_is_listed_with_its_latest_version(store: Store) -> None:
    store.datasets.put(OLD, now=1.0)
    store.datasets.put(NEW, now=2.0)
    store.datasets.put(replace(OLD, name="other"), now=3.0)
    first, second = store.datasets.list()
    assert (first.name, first.version, first.tasks, first.versions) == ("d", NEW.version, 2, 2)
    assert first.splits == {"train": 1, "val": 1}
    assert (first.parent, first.reason, first.put_at) == (OLD.version, "more", 2.0)
    assert (second.name, second.versions) == ("other", 1)
    assert [each.version for each in store.datasets.history("d")] == [NEW.version, OLD.version]
    assert store.datasets.history("none") == []


def test_a_change_of_a_version_that_is_no_longer_the_latest_is_refused(store: Store) -> None:
    store.datasets.put(OLD, now=1.0, after=Dataset("d", (), {}))
    store.datasets.put(NEW, now=2.0, after=OLD)
    stale = Dataset("d", (Task("t", 3),), {"t": "train"})
    for before in (OLD, Dataset("d", (), {})):
        with pytest.raises(Conflict, match="'d' was changed by another process in the meantime"):
            store.datasets.put(stale, now=3.0, after=before)
    assert store.datasets.latest("d") == NEW
    empty = Dataset("e", (), {})
    store.datasets.put(empty, now=4.0)
    store.datasets.put(replace(stale, name="e"), now=5.0, after=empty)
    assert store.datasets.named("e").tasks == stale.tasks


def test_the_uses_of_an_input_are_its_splits_in_all_of_the_versions(store: Store) -> None:
    store.datasets.put(OLD, now=1.0)
    store.datasets.put(NEW, now=2.0)
    store.datasets.put(replace(NEW, splits={"t": "test", "u": "val"}), now=3.0)
    versions = [summary.version for summary in store.datasets.history("d")]
    found = dict(store.datasets.uses([*versions, "unknown"]))
    assert found == {1: {"train", "test"}, 2: {"val"}}
    assert store.datasets.uses([]) == []
