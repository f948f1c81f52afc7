"""The default split of tasks, with a larger test share if there are few.

A proof takes a number of test tasks that does not shrink with the file. So in a small file half of
the tasks are for test, and where earlier runs have used tasks, new ones are for test until a usual
gain is likely to be proved on them. Tasks that were used keep their roles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ratchet.curate.split import groups_of, point_of, split_of
from ratchet.types import SPLITS, Dataset, InputError, Split, Task
from ratchet.types.wording import counted

LARGE_FILE_SHARES: Mapping[Split, float] = {"train": 0.4, "val": 0.2, "test": 0.4}

TEST_OF_FEW = 0.5
"""Share of test in a small file; val makes room for it. `benchmarks/few_tasks.py` measures how
often a gain is proved so, and with other shares."""

TEST_TASKS = 50
"""Maximum number of test tasks from the larger share."""

MAX_TEST_SHARE = 0.75
"""Share of test up to which new tasks are for test: with nothing to learn from, nothing is
proved."""


def usual_split(
    tasks: Sequence[Task],
    *,
    name: str,
    enough: int,
    roles: Mapping[str, Split] | None = None,
    group_by: str | None = None,
    near_duplicates: bool = True,
    complete: bool = True,
) -> Dataset:
    """Create a dataset of these tasks with a split for each; its reason says what was chosen.

    Args:
        tasks: The tasks, with unique ids.
        name: The dataset's name.
        enough: Number of test tasks up to which new tasks are for test.
        roles: Split by task id of the tasks that earlier runs have used.
        group_by: As for `split_tasks`.
        near_duplicates: As for `split_tasks`.
        complete: Whether each split needs a task.

    Raises:
        ConfigError: group_by names nothing.
        InputError: There are fewer groups of tasks than splits, and each needs one.
    """
    group_of = groups_of(tasks, group_by, near_duplicates)
    members: dict[bytes, list[Task]] = {}
    for task in tasks:
        members.setdefault(group_of[task.id], []).append(task)
    if complete and len(members) < len(SPLITS):
        raise InputError(
            f"{counted(len(tasks), 'task')} in {counted(len(members), 'group')} are too few: each "
            "of train, val and test needs one group.",
            hint="Add tasks. Nearly identical tasks form one group; see near_duplicates and"
            " group_by under [tasks].",
        )
    used = _of_used(members, roles or {})
    few = LARGE_FILE_SHARES["test"] * len(tasks) < TEST_TASKS
    if few and set(used.values()) != set(SPLITS):  # a first evaluation uses one or two
        splits, reason = _of_few(members, used, len(tasks))
    elif roles:
        splits, reason = _with_roles(members, roles, used, enough, len(tasks))
    else:
        splits, reason = {group: split_of(group, LARGE_FILE_SHARES) for group in members}, ""
    by_task = {id: (roles or {}).get(id) or splits[group] for id, group in group_of.items()}
    return Dataset(name=name, tasks=tuple(tasks), splits=by_task, reason=reason)


def _of_used(members: Mapping[bytes, list[Task]], roles: Mapping[str, Split]) -> dict[bytes, Split]:
    """Splits of the groups that have tasks with roles."""
    splits: dict[bytes, Split] = {}
    for group, tasks in members.items():
        group_roles = [roles[task.id] for task in tasks if task.id in roles]
        if group_roles:
            # What resembles a task that learning has used says as little about a candidate.
            splits[group] = next((role for role in group_roles if role != "test"), "test")
    return splits


def _of_few(
    members: Mapping[bytes, list[Task]], used: Mapping[bytes, Split], count: int
) -> tuple[dict[bytes, Split], str]:
    """Splits with exact shares, by group; each split gets at least one group.

    Tasks with an expected answer are split among themselves first, since an evaluator may need it.

    Args:
        members: Tasks by group.
        used: Splits of the groups that have one already.
        count: Number of tasks.
    """
    share = max(LARGE_FILE_SHARES["test"], min(TEST_OF_FEW, TEST_TASKS / count))
    train_share = LARGE_FILE_SHARES["train"]
    shares: dict[Split, float] = {
        "test": share,
        "train": train_share,
        "val": 1 - share - train_share,
    }
    splits = dict(used)
    groups = sorted(set(members) - set(used), key=point_of)
    has_answer = {
        group: any(task.expected is not None for task in tasks) for group, tasks in members.items()
    }
    for answered in (True, False):
        own = [group for group in groups if has_answer[group] == answered]
        used_tasks = Counter(
            used[group] for group in used if has_answer[group] == answered for _ in members[group]
        )
        size = sum(len(members[group]) for group in own)
        total = size + used_tasks.total()
        lacking = {
            split: max(0.0, part * total - used_tasks[split]) for split, part in shares.items()
        }
        scale = size / (sum(lacking.values()) or 1)
        test = lacking["test"] * scale
        train = test + lacking["train"] * scale
        placed = 0
        for position, group in enumerate(own):
            left = len(own) - position
            missing = [split for split in SPLITS if split not in splits.values()]
            middle = placed + len(members[group]) / 2
            wanted: Split = "test" if middle < test else "train" if middle < train else "val"
            splits[group] = missing[0] if left <= len(missing) and wanted not in missing else wanted
            placed += len(members[group])
    return splits, (
        "Half of a small file is for test, because a proof needs test tasks."
        if share == TEST_OF_FEW
        else "More of a small file is for test, because a proof needs test tasks."
    )


def _with_roles(
    members: Mapping[bytes, list[Task]],
    roles: Mapping[str, Split],
    used: Mapping[bytes, Split],
    enough: int,
    count: int,
) -> tuple[dict[bytes, Split], str]:
    """Splits by group: of tasks with roles, and of new tasks."""
    splits = dict(used)
    test = sum(
        (roles.get(task.id) or splits[group]) == "test"
        for group in splits
        for task in members[group]
    )
    new = [group for group in members if group not in splits]
    for_test = 0
    for group in new:
        if test < min(enough, MAX_TEST_SHARE * count):
            splits[group] = "test"
            test += len(members[group])
            for_test += len(members[group])
        else:
            splits[group] = split_of(group, LARGE_FILE_SHARES)
    if not for_test:
        return splits, ""
    return splits, (
        f"{for_test} new ones are for test, because a proof needs test tasks; tasks used before "
        "keep their roles."
    )
