"""The parts of the engine, one by one: merges, novelty, plans and bandits."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.learn import BudgetExhausted
from ratchet.learn.evolve.bandit import Bandit
from ratchet.learn.evolve.budget import make_plan
from ratchet.learn.evolve.crossover import merge_candidates, merge_texts, pieces_of
from ratchet.learn.evolve.ending import is_within_chance
from ratchet.learn.evolve.novelty import Novelty
from ratchet.learn.evolve.population import Member, Population, front, kind
from ratchet.learn.race import Race
from ratchet.types import Candidate, Code, PromptTemplate


def prompt(text: str) -> Candidate:
    return Candidate.of({"system": PromptTemplate(text)})


def function(source: str) -> Candidate:
    return Candidate.of({"f": Code(source, "f")})


def member(number: int, **scores: float) -> Member:
    made = Member(number, prompt(f"prompt {number}"))
    made.scores = dict(scores)
    return made


# Merges.

BASE = prompt("You book rooms.\nBe kind.\nAnswer with an id.")


def merged(one: str, other: str) -> str | None:
    found = merge_candidates(prompt(one), prompt(other), BASE)
    return None if found is None else str(found["system"])


def test_what_two_changed_in_different_places_is_joined() -> None:
    assert merged(
        "You book rooms.\nCheck the size.\nBe kind.\nAnswer with an id.",
        "You book rooms.\nBe kind.\nAnswer with an id.\nSay none if none fits.",
    ) == ("You book rooms.\nCheck the size.\nBe kind.\nAnswer with an id.\nSay none if none fits.")


def test_what_both_put_in_one_place_is_said_once() -> None:
    end = "You book rooms.\nBe kind.\nAnswer with an id."
    assert merged(f"{end}\nA.\nB.", f"{end}\nB.\nC.") == f"{end}\nA.\nB.\nC."


def test_different_changes_of_one_line_are_no_merge() -> None:
    assert (
        merged(
            "You book rooms.\nBe brief.\nAnswer with an id.",
            "You book rooms.\nBe polite.\nAnswer with an id.",
        )
        is None
    )


def test_a_merge_that_is_one_of_its_parents_is_none() -> None:
    assert merged(str(BASE.resources["system"]), "Another.") is None


def test_resources_that_one_changed_are_taken_from_it() -> None:
    base = Candidate.of({"a": PromptTemplate("a"), "b": PromptTemplate("b")})
    one = base.derive({"a": PromptTemplate("a2")}, algorithm="t")
    other = base.derive({"b": PromptTemplate("b2")}, algorithm="t")
    assert merge_candidates(one, other, base) == {
        "a": PromptTemplate("a2"),
        "b": PromptTemplate("b2"),
    }


def test_code_is_merged_by_lines_and_has_to_parse() -> None:
    base = function("def f(a):\n    b = 1\n    c = 2\n    return a + b + c\n")
    one = function("def f(a):\n    b = 5\n    c = 2\n    return a + b + c\n")
    other = function("def f(a):\n    b = 1\n    c = 2\n    return a * b + c\n")
    found = merge_candidates(one, other, base)
    assert found is not None
    assert found["f"] == Code("def f(a):\n    b = 5\n    c = 2\n    return a * b + c\n", "f")


@given(st.text(st.sampled_from("ab .!?\n"), max_size=60))
def test_pieces_joined_are_the_text(text: str) -> None:
    assert "".join(pieces_of(text)) == text


LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "d\n"]), max_size=8)


@given(LINES, LINES)
def test_merging_with_the_ancestor_gives_the_other(ancestor: list[str], other: list[str]) -> None:
    assert merge_texts(ancestor, other, ancestor) == "".join(other)
    assert merge_texts(other, ancestor, ancestor) == "".join(other)
    assert merge_texts(other, other, ancestor) == "".join(other)


# Novelty.


@pytest.mark.parametrize(
    ("one", "other", "new"),
    [
        ("Answer with the id.", "answer  with id", False),
        ("A.\nB.", "B.\n\nA", False),
        ("At most 3 rooms.", "At most 5 rooms.", True),
        ("Do answer.", "Do not answer.", True),
        ("Use {office}.", "Use {{office}}.", True),
    ],
)
def test_prompts_that_differ_in_form_alone_are_not_new(one: str, other: str, new: bool) -> None:
    novelty = Novelty()
    assert not novelty.refusal(prompt(one))
    assert (novelty.refusal(prompt(other)) == "") is new
    assert "tried before" in novelty.refusal(prompt(one))


@pytest.mark.parametrize(
    ("one", "other", "new"),
    [
        ("def f(a):\n    x = a\n    return x\n", "def f(a):\n    y = a\n    return y\n", False),
        ("def f(a):\n    return a + 1\n", 'def f(a):\n    """Doc."""\n    return 1 + a\n', False),
        ("def f(a: int):\n    return a\n", "def f(a) -> int:\n    return (a)  # same\n", False),
        ("def f(a, b):\n    return a - b\n", "def f(a, b):\n    return b - a\n", True),
        ("def f(a, b):\n    return a + b\n", "def f(a, b):\n    return b + a\n", True),
        ("def f(a):\n    return 1\n", "def f(a):\n    return 2\n", True),
        ("def f(a):\n    return 1\n", "def f(a):\n    return True\n", True),
    ],
)
def test_functions_that_differ_in_form_alone_are_not_new(one: str, other: str, new: bool) -> None:
    novelty = Novelty()
    novelty.refusal(function(one))
    assert (novelty.refusal(function(other)) == "") is new


# Population.


def test_the_front_holds_who_is_best_somewhere() -> None:
    members = [
        member(0, a=0.1, b=0.1, c=0.1),
        member(1, a=1.0, b=0.2, c=0.5),
        member(2, a=0.3, b=0.9, c=0.5),
        member(3, c=0.5),
    ]
    assert front(members) == {1: 2, 2: 2}
    assert front(members[:1]) == {0: 3}


def test_the_archive_keeps_the_best_of_each_kind() -> None:
    base = prompt("one two three four five six")
    assert kind(base, base) == (0, 4)
    assert kind(prompt("one two three four five six " * 4), base)[0] > 2
    assert kind(prompt("other words and nothing the same"), base)[1] == 0


def test_migrants_visit_the_next_island() -> None:
    race: Race[Member] = Race()
    first = member(0, a=0.5, b=0.5)
    race.estimate.add(first.id, None, first.scores)
    population = Population(first, race, islands=2, migrate_every=2)
    good = member(1, a=1.0, b=1.0)
    good.parents, good.islands = (first,), {0}
    race.estimate.add(good.id, first.id, good.scores)
    assert good not in population.on(1)
    population.keep(good)
    assert good in population.on(1)
    assert population.best(1) is good


def test_a_complement_is_good_where_the_other_fails() -> None:
    one, two, three = member(0, a=1.0, b=0.0), member(1, a=0.0, b=1.0), member(2, a=1.0, b=0.0)
    population = Population(one, Race(), islands=1, migrate_every=5)
    population.members += [two, three]
    for each in population.members:
        each.islands = {0}
        each.evaluations = dict.fromkeys(each.scores)  # type: ignore[arg-type]
    assert population.complement(one, 0, 1.0) is two
    assert population.complement(two, 0, 1.0) in (one, three)


# Plans.


@given(
    st.integers(0, 5000),
    st.integers(1, 200),
    st.integers(1, 200),
    st.integers(1, 20),
    st.integers(1, 64),
)
def test_a_plan_fits_into_its_budget_or_is_refused(
    rollouts: int, train: int, val: int, first: int, at_once: int
) -> None:
    try:
        plan = make_plan(
            rollouts, train=train, val=val, first=first, finalists=None, islands=None,
            at_once=at_once,
        )  # fmt: skip
    except BudgetExhausted:
        assert rollouts < 2 * min(first, train) + 2 * min(2, val)
        return
    assert plan.start + plan.first + plan.reserve <= rollouts
    assert 1 <= plan.start <= train
    assert min(2, val) <= plan.val <= val
    assert plan.reserve == plan.val * (plan.finalists + 1)
    assert plan.breadth >= 2


# Bandits.


def test_calls_move_to_what_survives() -> None:
    bandit, rng = Bandit(), random.Random(0)
    for _ in range(300):
        arm = bandit.choose(["good", "bad"], rng)
        bandit.count(arm, rng.random() < (0.6 if arm == "good" else 0.05))
    chosen = [bandit.choose(["good", "bad"], rng) for _ in range(200)]
    assert chosen.count("good") > 170
    weights = bandit.weights(["good", "bad", "new"])
    assert weights["good"] > weights["bad"] > 0
    assert weights["new"] > weights["bad"]


@pytest.mark.parametrize(
    ("left", "within"),
    [
        ([1.0] + [0.0] * 39, True),  # one task of forty: nobody could be told to be better
        ([1.0, 1.0] + [0.0] * 38, False),
        ([1.0] + [0.0] * 9, False),  # one of ten is a lot
        ([0.03] * 40, False),  # each leaves something: that is no chance
        ([0.0] * 40, True),
        ([-9.0] + [0.5] * 39, False),  # scores above 1 are of another scale
        ([float("inf")] * 40, False),  # where nobody knows the best score
    ],
)
def test_what_is_left_is_within_chance_only_where_nobody_could_be_told_to_be_better(
    left: list[float], within: bool
) -> None:
    assert is_within_chance(left) is within
