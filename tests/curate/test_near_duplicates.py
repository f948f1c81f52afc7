"""Texts that say nearly the same are grouped; texts that differ in what matters are not."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from benchmarks.parts.datasets.made_texts import made_texts
from hypothesis import given
from hypothesis import strategies as st

from ratchet.curate import near_duplicate_groups, split_tasks
from ratchet.types import Split, Task

FRACTIONS: dict[Split, float] = {"train": 0.4, "val": 0.2, "test": 0.4}


def are_grouped(*texts: str) -> bool:
    return set(near_duplicate_groups(texts)) == {0}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "Please cancel my reservation for tonight",
            "please  cancel my\nRESERVATION for tonight!!",
        ),
        ("How can I reset my router password", "How can I reset my router password? Thanks a lot!"),
        ("Where can I find my latest invoice", "Hi, where can I find my latest invoice"),
        ("café au lait recipe with oat milk", "cafe\u0301 au lait recipe with oat milk"),
        ("book a table for 1,000 guests at the venue", "book a table for 1000 guests at the venue"),
        ("my wireless keyboard has stopped working", "my wirelss keyboard has stopped workign"),
        ("reset the router in the kitchen tonight", "in the kitchen, reset the router tonight"),
        (
            "The parcel from the warehouse arrived broken and the driver left at once",
            "The package from the warehouse arrived broken and the driver left at once",
        ),
        ("请帮我取消昨天下的订单谢谢", "请帮我取消昨天下的订单,谢谢!"),
    ],
)
def test_copies_are_grouped(one: str, other: str) -> None:
    assert are_grouped(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The meeting starts at 5 pm in the hall", "The meeting starts at 6 pm in the hall"),
        ("order two tickets for the evening show", "order three tickets for the evening show"),
        ("what is 5 + 3 for the class", "what is 5 - 3 for the class"),
        ("the frost was -5 degrees yesterday", "the frost was 5 degrees yesterday"),
        ("Is version 1.10 compatible with plugins", "Is version 1.1 compatible with plugins"),
        ("transfer $50 to my savings account", "transfer €50 to my savings account"),
        ("refund item A-17 of my latest order", "refund item A-18 of my latest order"),
        ("Please do cancel my reservation now", "Please do not cancel my reservation now"),
        ("I can log in since the last update", "I can't log in since the last update"),
        ("Wie kann ich das Abo stornieren", "Wie kann ich das Abo nicht stornieren"),
        ("请取消我昨天下的那个订单", "请不要取消我昨天下的那个订单"),
        ("Send the report to Anna by Friday", "Send the report to Paul by Friday"),
        ("Book a flight from Paris to London", "Book a flight from London to Paris"),
        ("Choose option B for the billing plan", "Choose option C for the billing plan"),
        ("spell the word 'cat' backwards please", "spell the word 'dog' backwards please"),
        ("turn on the dark mode in the settings", "turn off the dark mode in the settings"),
        ("remind me before the lunch with Anna", "remind me after the lunch with Anna"),
        ("When was the tower of the town built", "Where was the tower of the town built"),
        ("Paris has how many people in the centre", "Lyon has how many people in the centre"),
    ],
)
def test_what_differs_in_a_number_a_negation_or_a_name_is_never_grouped(
    one: str, other: str
) -> None:
    assert not are_grouped(one, other)


def test_a_text_between_two_does_not_join_those_that_differ_in_a_name() -> None:
    # The one in the middle does not tell that it holds a name.
    texts = [
        "Please show the timetable of all trains to Paris on sunday mornings",
        "please show the timetable of all trains to paris on sunday mornings",
        "please show the timetable of all trains to on sunday mornings",
        "Please show the timetable of all trains to Oslo on sunday mornings",
    ]
    groups = near_duplicate_groups(texts)
    assert groups[0] == groups[1]
    assert groups[3] != groups[0]


def test_planted_copies_are_never_in_two_splits() -> None:
    made = made_texts(40, random.Random(5))
    tasks = [Task(str(n), {"message": one.text}) for n, one in enumerate(made)]
    splits = split_tasks(tasks, name="d", fractions=FRACTIONS).splits
    groups: dict[int, set[str]] = {}
    for task, one in zip(tasks, made, strict=True):
        groups.setdefault(one.group, set()).add(splits[task.id])
    assert [group for group, found in groups.items() if len(found) > 1] == []
    merged: dict[int, set[int]] = {}
    groups_found = near_duplicate_groups([one.text for one in made])
    for leader, one in zip(groups_found, made, strict=True):
        merged.setdefault(leader, set()).add(one.group)
    assert [found for found in merged.values() if len(found) > 1] == []


@given(st.lists(st.text(max_size=30), max_size=12))
def test_any_text_can_be_grouped_and_leads_or_follows_one_before_it(texts: Sequence[str]) -> None:
    groups = near_duplicate_groups(texts)
    assert all(leader <= number for number, leader in enumerate(groups))
    assert all(groups[leader] == leader for leader in groups)
    twice = near_duplicate_groups([*texts, *texts])
    assert twice[len(texts) :] == twice[: len(texts)]


def test_inputs_that_differ_in_a_sign_or_an_operator_are_not_one_group() -> None:
    pairs = [("5+3", "5*3"), ("-5", "5"), ("1.5", "15")]
    for one, other in pairs:
        found = {
            tuple(
                split_tasks(
                    [Task("a", f"{one} of {salt}"), Task("b", f"{other} of {salt}")],
                    name="d",
                    fractions={"train": 0.5, "test": 0.5},
                    fixed={},
                ).splits.values()
            )
            for salt in "pqrstuvwxyz"
        }
        assert any(len(set(splits)) == 2 for splits in found), (one, other)


def test_given_splits_stay_and_copies_join_them() -> None:
    known = [Task(f"k{n}", f"a question about topic number {n}") for n in range(30)]
    first = split_tasks(known, name="d", fractions=FRACTIONS)
    moved = dict.fromkeys(first.splits, "val")
    copies = [Task(f"c{n}", f"Hi! A question about topic number {n}, please") for n in range(30)]
    both = split_tasks([*copies, *known], name="d", fractions=FRACTIONS, fixed=moved)  # type: ignore[arg-type]
    assert set(both.splits.values()) == {"val"}
