"""Candidates, code, datasets and the tables of states."""

from __future__ import annotations

import pytest

from ratchet.types import (
    RELEASE_TRANSITIONS,
    ROLLOUT_TRANSITIONS,
    STAGE_TRANSITIONS,
    Candidate,
    Code,
    Dataset,
    InputError,
    Int,
    Model,
    Params,
    PromptTemplate,
    Task,
    version_of,
)

PROMPT = PromptTemplate("Answer {q}")
KNOBS = Params({"k": Int(5, 1, 20)})


def test_a_candidate_is_named_by_its_resources_alone() -> None:
    one = Candidate.of({"system": PROMPT, "knobs": KNOBS})
    other = Candidate.of(
        {"knobs": KNOBS, "system": PROMPT}, parents=("p",), algorithm="tune", reason="why"
    )
    assert one.id == other.id
    assert one.id == "ee16e87de9671886ec21373f0969d504"
    assert Candidate.of({"system": PROMPT}).id != one.id
    assert Candidate.of({"other": PROMPT, "knobs": KNOBS}).id != one.id


def test_deriving_an_unknown_resource_or_another_kind_is_refused() -> None:
    source = Candidate.of({"system": PROMPT})
    with pytest.raises(InputError, match=r"No resource is named 'sytem'; there are \['system'\]"):
        source.derive({"sytem": PROMPT}, algorithm="apo")
    with pytest.raises(InputError, match="Resource 'system' is prompt, not params"):
        source.derive({"system": KNOBS}, algorithm="apo")


def test_code_is_one_function_of_that_name() -> None:
    assert Code("async def f(a):\n    return a\n", "f").function == "f"
    for source, words in {
        "def g():\n    pass": "defines 'g' instead of 'f'",
        "def f(:": "does not parse",
        "def f(): pass\nimport os": "exactly one function",
        "f = 1": "exactly one function",
        "": "exactly one function",
        "@cached\ndef f(): pass": "decorator",
        "def f():\n    return \0": "does not parse",
        "def f():\n    return " + "(" * 5000 + ")" * 5000: "does not parse",
        "def f():\n    return " + "-" * 200_000 + "1": "does not parse",
    }.items():
        with pytest.raises(InputError, match=words):
            Code(source, "f")


def test_blank_lines_around_code_do_not_make_a_version() -> None:
    source = "def f():\n    return 1"
    assert version_of(Code(source, "f")) == version_of(Code(f"\n{source}\n\n", "f"))
    assert version_of(Code(source, "f")) != version_of(Code(source.replace("1", "2"), "f"))


def test_a_model_needs_a_name_and_its_sampling_is_part_of_its_version() -> None:
    with pytest.raises(InputError, match="needs a name"):
        Model("")
    assert version_of(Model("m")) != version_of(Model("m", sampling={"temperature": 0.5}))


def test_a_dataset_version_covers_tasks_and_splits_but_not_their_order() -> None:
    a, b = Task("a", "one", "1"), Task("b", "two", "2")
    splits = {"a": "train", "b": "test"}
    dataset = Dataset("d", (a, b), splits)  # type: ignore[arg-type]
    assert dataset.version == Dataset("e", (b, a), splits).version  # type: ignore[arg-type]
    assert dataset.version != Dataset("d", (a, b), {"a": "train", "b": "val"}).version
    changed = Dataset("d", (a, Task("b", "two", "3")), splits)  # type: ignore[arg-type]
    assert dataset.version != changed.version
    assert dataset.split("train") == (a,)
    assert dataset.split("val") == ()


def test_metadata_is_part_of_what_a_rollout_depends_on() -> None:
    assert Task("a", 1).content() == Task("b", 1).content()
    assert Task("a", 1).content() != Task("a", 1, metadata={"x": 1}).content()


@pytest.mark.parametrize("table", [ROLLOUT_TRANSITIONS, RELEASE_TRANSITIONS, STAGE_TRANSITIONS])
def test_transitions_lead_to_known_states_and_to_an_end(table: dict[str, frozenset[str]]) -> None:
    assert all(following <= table.keys() for following in table.values())
    ends = {state for state, following in table.items() if not following}
    for start in table:
        reached, frontier = {start}, {start}
        while frontier:
            frontier = {s for f in frontier for s in table[f]} - reached
            reached |= frontier
        assert reached & ends
