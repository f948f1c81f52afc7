"""The split leaks nothing, and stays where it is when tasks are added."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.curate import split_tasks
from ratchet.types import ConfigError, Dataset, InputError, Split, Task

FRACTIONS: dict[Split, float] = {"train": 0.4, "val": 0.2, "test": 0.4}


def split(tasks: Sequence[Task], group_by: str | None = None, **fractions: float) -> Dataset:
    return split_tasks(
        tasks,
        name="d",
        fractions=fractions or FRACTIONS,  # type: ignore[arg-type]
        group_by=group_by,
    )


def filler(count: int = 60) -> list[Task]:
    """Enough tasks that no split stays empty."""
    return [Task(f"filler{i}", f"filler number {i}", f"answer {i}") for i in range(count)]


def test_ten_thousand_tasks_come_near_the_fractions_asked_for() -> None:
    dataset = split([Task(str(i), f"question {i}") for i in range(10_000)])
    for name, fraction in FRACTIONS.items():
        assert abs(len(dataset.split(name)) / 10_000 - fraction) < 0.015


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("How do I sort a list?", "how do I   sort a list"),
        ("Straße", "STRASSE"),
        ("caf\u00e9 au lait", "cafe\u0301 au lait"),
        ("\uff46\uff55ll width", "full width"),
        ("snake_case name", "snake case, name!"),
        ({"q": "A b"}, {"q": "a  B."}),
        (["A", {"b": "C"}], ["a", {"b": "c!"}]),
    ],
)
def test_inputs_that_differ_only_in_wording_share_a_split(one: Any, other: Any) -> None:
    for salt in range(12):  # by chance alone, they would be parted in one of these
        pair = [Task("a", [salt, one], 1), Task("b", [salt, other], 2)]
        for group_by in (None, "expected"):
            splits = split([*filler(), *pair], group_by).splits
            assert splits["a"] == splits["b"]


@given(
    st.lists(
        st.tuples(st.sampled_from("pqrstu"), st.sampled_from(["A", "b.", "c", "d", "B", "e "])),
        max_size=30,
    ),
    st.randoms(use_true_random=False),
)
def test_a_group_or_an_input_is_never_in_two_splits(
    pairs: list[tuple[str, str]], shuffler: random.Random
) -> None:
    tasks = [Task(str(i), text, group) for i, (text, group) in enumerate(pairs)]
    mixed = [*filler(), *tasks]
    shuffler.shuffle(mixed)
    splits = split(mixed, "expected").splits
    for one in tasks:
        for other in tasks:
            same = one.input == other.input
            if same or one.expected.lower().strip(" .") == other.expected.lower().strip(" ."):
                assert splits[one.id] == splits[other.id]


@given(
    st.lists(st.tuples(st.text("pqrstuvw", max_size=2), st.integers(0, 12)), max_size=30),
    st.lists(st.text("pqrstuvw", max_size=2), max_size=20),
    st.booleans(),
)
def test_tasks_added_later_leave_the_others_where_they_are(
    before: list[tuple[str, int]], after: list[str], grouped: bool
) -> None:
    group_by = "metadata.g" if grouped else None
    tasks = [Task(f"a{i}", text, metadata={"g": g}) for i, (text, g) in enumerate(before)]
    # New groups, of inputs old and new: each joins the group its input is in already.
    added = [Task(f"b{i}", text, metadata={"g": f"new {i}"}) for i, text in enumerate(after)]
    base = [Task(t.id, t.input, metadata={"g": t.id}) for t in filler()]
    first = split([*base, *tasks], group_by).splits
    second = split([*base, *tasks, *added], group_by).splits
    assert {task_id: second[task_id] for task_id in first} == first


def test_known_tasks_never_move() -> None:
    tasks = [Task(str(i), f"question {i}", f"answer {i // 2}") for i in range(40)]
    assert "".join(s[1] for s in split(tasks).splits.values()) == UNGROUPED
    assert "".join(s[1] for s in split(tasks, "expected").splits.values()) == GROUPED


UNGROUPED = "aerereeaeraeaeeraeerrraareerareaarrrerrr"
GROUPED = "rrrreeaaaarreeeeeeeerrrreeeeeeaarraaaaee"


def test_an_empty_split_is_refused() -> None:
    with pytest.raises(InputError, match=r"No task is in the \w+ split: .* 1 task in 1 group"):
        split([Task("a", "x")])
    with pytest.raises(InputError, match="No task is in the train split: there are 0 tasks"):
        split([])
    same = [Task(str(i), f"question {i}", "one answer") for i in range(50)]
    with pytest.raises(InputError, match="50 tasks in 1 group"):
        split(same, "expected")


@pytest.mark.parametrize(
    "fractions",
    [
        {"train": 0.5, "val": 0.2, "test": 0.2},
        {"train": 1.2, "val": -0.2},
        {"train": float("nan"), "val": 0.2, "test": 0.4},
        {"train": 1.0, "val": 1.0},
    ],
)
def test_shares_that_do_not_add_up_to_one_are_refused(fractions: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=r"sum to .*, not 1"):
        split(filler(), **fractions)


@pytest.mark.parametrize("group_by", ["input", "metadata", "metadata.", "meta.x", ""])
def test_a_group_by_that_names_nothing_is_refused(group_by: str) -> None:
    with pytest.raises(ConfigError, match="cannot be grouped by"):
        split(filler(), group_by)


def test_a_task_without_the_metadata_key_is_named() -> None:
    tasks = [Task("has", "a", metadata={"topic": "x"}), Task("lacks", "b")]
    with pytest.raises(ConfigError, match="metadata 'topic', which task 'lacks' does not have"):
        split(tasks, "metadata.topic", train=1.0)
