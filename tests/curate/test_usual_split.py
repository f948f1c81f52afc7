"""The usual split: exact shares in a small file, roles that stay, new tasks for test first."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from ratchet.curate.split import split_tasks
from ratchet.curate.usual_split import LARGE_FILE_SHARES, usual_split
from ratchet.types import InputError, Split, Task


def made(count: int, start: int = 0) -> list[Task]:
    return [Task(f"t{n}", f"{n * 7919:x} is what?") for n in range(start, start + count)]


def counts(tasks: list[Task], roles: dict[str, Split] | None = None) -> dict[str, int]:
    dataset = usual_split(tasks, name="d", enough=365, roles=roles, near_duplicates=False)
    return dict(Counter(dataset.splits.values()))


def test_the_share_of_test_falls_without_a_step_to_that_of_a_large_file() -> None:
    assert [counts(made(count))["test"] for count in (100, 110, 124)] == [50, 50, 50]
    tasks = made(125)
    large = usual_split(tasks, name="d", enough=365, near_duplicates=False)
    usual = split_tasks(tasks, name="d", fractions=LARGE_FILE_SHARES, near_duplicates=False)
    assert large.splits == usual.splits


def test_a_group_is_in_one_split_and_each_split_has_one() -> None:
    tasks = [Task(f"t{n}", f"question {n}", metadata={"user": str(n % 4)}) for n in range(20)]
    dataset = usual_split(tasks, name="d", enough=9, group_by="user", near_duplicates=False)
    of_user = {(task.metadata["user"], dataset.splits[task.id]) for task in tasks}
    assert len(of_user) == 4
    assert set(dataset.splits.values()) == {"train", "val", "test"}


@pytest.mark.parametrize("role", ["train", "val", "test"])
def test_tasks_written_after_the_first_was_evaluated_fill_each_split_with_answered_ones(
    role: Split,
) -> None:
    for start in range(0, 1000, 10):
        starter, *new = made(11, start)
        new = [msgspec.structs.replace(task, expected="4") for task in new]
        dataset = usual_split(
            [starter, *new], name="d", enough=365, roles={starter.id: role}, near_duplicates=False
        )
        assert dataset.splits[starter.id] == role
        of_new = Counter(dataset.splits[task.id] for task in new)
        assert of_new == {"test": 5, "train": 4, "val": 1}


def test_splits_that_an_evaluation_has_used_count_and_the_others_are_filled() -> None:
    for start in range(0, 1000, 20):
        tasks = made(20, start)
        roles: dict[str, Split] = {task.id: "train" for task in tasks[:6]}
        roles |= {task.id: "test" for task in tasks[6:8]}
        dataset = usual_split(tasks, name="d", enough=9, roles=roles, near_duplicates=False)
        assert Counter(dataset.splits.values()) == {"test": 10, "train": 8, "val": 2}


def test_a_task_without_an_answer_takes_no_answered_task_s_place() -> None:
    for start in range(0, 1000, 10):
        answered = [msgspec.structs.replace(task, expected="4") for task in made(3, start)]
        unanswered = made(7, start + 3)
        dataset = usual_split([*unanswered, *answered], name="d", enough=9, near_duplicates=False)
        assert {dataset.splits[task.id] for task in answered} == {"train", "val", "test"}


def test_fewer_groups_than_splits_are_too_few() -> None:
    with pytest.raises(InputError, match="2 tasks in 2 groups are too few"):
        usual_split(made(2), name="d", enough=9, near_duplicates=False)


def test_new_tasks_are_for_test_until_there_are_enough_and_the_others_keep_their_roles() -> None:
    first = usual_split(made(40), name="d", enough=30, near_duplicates=False)
    more = usual_split(made(80), name="d", enough=30, roles=first.splits, near_duplicates=False)
    assert {task.id: more.splits[task.id] for task in first.tasks} == first.splits
    new = [more.splits[f"t{n}"] for n in range(40, 80)]
    assert new[:10] == ["test"] * 10
    assert set(new[10:]) == {"train", "val", "test"}
    assert more.reason.startswith("10 new ones are for test")


def test_what_resembles_a_task_of_learning_is_not_for_test() -> None:
    first = Task("old", "please count the words in a long text")
    rest: dict[str, Split] = {"old": "train", "t0": "val", "t1": "test"}
    again = Task("new", "count the words in a long text please")
    dataset = usual_split([first, *made(2), again], name="d", enough=365, roles=rest)
    assert dataset.splits["new"] == "train"
