"""Freezing: which tasks keep a fixed problem fixed, and what a correction leaves behind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ratchet.autopilot.freezing import corrected, freeze
from ratchet.autopilot.task_roles import TaskRoles, without_learned
from ratchet.store import Store
from ratchet.types import Correction, Dataset, FrozenSet, InputError, Problem, Task


@pytest.fixture
def local(sqlite_url: str) -> Store:
    return Store.open(sqlite_url)


def problem(release_id: str = "r1") -> Problem:
    return Problem(
        id="problem", agent="a", kind="low_score", title="Dates are American", first_seen=0.0,
        last_seen=1.0, changed_at=1.0, release_id=release_id,
    )  # fmt: skip


def made(name: str, count: int, expected: object = "right") -> list[Task]:
    return [Task(f"{name}{number}", f"{name} {number}", expected) for number in range(count)]


Freeze = Callable[..., FrozenSet]


@pytest.fixture
def frozen(local: Store) -> Freeze:
    def make(
        failures: list[Task], neighbours: list[Task], answered: bool = True, release: str = "r1"
    ) -> FrozenSet:
        return freeze(
            problem(release), failures, neighbours, store=local, project="p", answered=answered,
            loss=0.2, now=5.0,
        )  # fmt: skip

    return make


@pytest.mark.parametrize(
    ("failures", "neighbours", "kept"),
    [(40, 40, (15, 5)), (40, 2, (18, 2)), (40, 0, (20, 0)), (3, 40, (3, 17)), (2, 1, (2, 1))],
)
def test_failures_come_first_and_a_quarter_is_left_to_neighbours(
    frozen: Freeze, failures: int, neighbours: int, kept: tuple[int, int]
) -> None:
    tasks = frozen(made("f", failures), made("n", neighbours)).tasks
    assert (
        sum(task.id.startswith("f") for task in tasks),
        sum(task.id.startswith("n") for task in tasks),
    ) == kept


def test_the_same_input_is_frozen_once_and_what_cannot_be_scored_not_at_all(
    frozen: Freeze,
) -> None:
    failures = [Task("a", "What day?", "x"), Task("b", "what DAY", "x"), Task("c", "Which?")]
    assert [task.id for task in frozen(failures, [Task("d", "What day", "x")]).tasks] == ["a"]


def test_without_expected_answers_tasks_are_frozen_only_if_the_objective_needs_none(
    frozen: Freeze,
) -> None:
    unanswered = made("f", 3, expected=None)
    with pytest.raises(InputError, match="no failure to freeze with an expected answer"):
        frozen(unanswered, [])
    assert len(frozen(unanswered, [], answered=False).tasks) == 3


def test_a_problem_is_frozen_once_for_a_release_and_keeps_what_was_corrected(
    frozen: Freeze, local: Store
) -> None:
    first = frozen(made("f", 3), [])
    right = corrected(first, "f1", "other", by="me", reason="It was wrong.", at=7.0)
    local.frozen_sets.put(right)
    assert frozen(made("f", 9), []) == right
    returned = frozen(made("f", 9), [], release="r2")
    assert returned.id != first.id
    assert len(local.frozen_sets.of_project("p")) == 2


def test_a_correction_changes_one_answer_and_leaves_a_trace(frozen: Freeze) -> None:
    before = frozen(made("f", 3), [])
    after = corrected(before, "f1", "other", by="me", reason="It was wrong.", at=7.0)
    assert [task.expected for task in after.tasks] == ["right", "other", "right"]
    assert after.version == 2
    assert after.corrections == (
        Correction(
            task_id="f1", before="right", after="other", by="me", reason="It was wrong.", at=7.0
        ),
    )
    removed = corrected(after, "f0", None, by="me", reason="It has two answers.", at=8.0)
    assert [task.id for task in removed.tasks] == ["f1", "f2"]
    assert [correction.after for correction in removed.corrections] == ["other", None]


@pytest.mark.parametrize(
    ("task", "expected", "reason", "message"),
    [
        ("f9", "other", "It was wrong.", "no task 'f9'; it has 'f0'"),
        ("f1", "right", "It was wrong.", "expects that answer already"),
        ("f1", "other", " ", "must say who makes it and why"),
    ],
)
def test_a_correction_of_nothing_or_for_no_reason_is_refused(
    frozen: Freeze, task: str, expected: str, reason: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        corrected(frozen(made("f", 3), []), task, expected, by="me", reason=reason, at=7.0)


def test_frozen_tasks_are_train_tasks_whatever_split_they_had(frozen: Freeze, local: Store) -> None:
    frozen([Task("x", "What DAY is it?", "x")], [Task("y", "And now?", "y")])
    tasks = (
        Task("a", "what day is it", "x"),
        Task("b", "And now", "y"),
        Task("c", "Never frozen", "z"),
    )
    dataset = Dataset("d", tasks, {"a": "test", "b": "val", "c": "test"})
    roles = TaskRoles(local, lambda: "p")
    guarded = without_learned(dataset, roles)
    assert guarded.splits == {"a": "train", "b": "train", "c": "test"}
    assert (
        guarded.reason
        == "2 tasks of val and test are moved to train, because a frozen set contains them."
    )
    assert roles.of(tasks) == {"a": "train", "b": "train"}
    assert without_learned(dataset, TaskRoles(local, lambda: "another")) == dataset


def test_what_is_of_one_group_with_a_frozen_task_goes_to_train_with_it(
    frozen: Freeze, local: Store
) -> None:
    frozen([Task("x", "What day is it?", "x")], [])
    tasks = (Task("a", "What day is it?", "x"), Task("b", "What day is it, please?", "x"))
    dataset = Dataset("d", tasks, {"a": "test", "b": "test"})
    groups = {"a": b"1", "b": b"1"}
    guarded = without_learned(dataset, TaskRoles(local, lambda: "p"), groups)
    assert guarded.splits == {"a": "train", "b": "train"}
