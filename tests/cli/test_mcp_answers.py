"""Answers of `ratchet mcp`: bounded whatever the data, and complete for who follows the cuts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.cli.mcp_answers import MAX_CHARACTERS, Cut, answer, refusal
from ratchet.types import InputError

texts = st.one_of(
    st.text(max_size=30),
    st.sampled_from(["", "~", "/", "a/b", "~1", "0", "\x00" * 9_000, "é…" * 20_000, '"' * 30_000]),
)
names = st.one_of(
    st.text(max_size=8), st.sampled_from(["", "/", "~", "k" * 300, "\x01" * 5_000, "n" * 40_000])
)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts
)


def many(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Lists and objects of few or of very many items."""
    repeated = st.tuples(values, st.integers(0, 3_000))
    return st.one_of(
        st.lists(values, max_size=6),
        st.dictionaries(names, values, max_size=6),
        repeated.map(lambda pair: [pair[0]] * min(pair[1], 40_000 // (1 + len(str(pair[0]))))),
        repeated.map(lambda pair: {f"key {n}": n for n in range(pair[1])}),
    )


def nested(pair: tuple[Any, int]) -> Any:
    """A value below so many lists and objects."""
    value, depth = pair
    for level in range(depth):
        value = [value] if level % 2 else {"in": value, "n": level}
    return value


plain = st.recursive(scalars, many, max_leaves=12)
anything = st.one_of(plain, st.tuples(plain, st.integers(0, 200)).map(nested))


def whole(data: Any, part: str = "") -> Any:
    """A part as a client gets it that follows the cuts; each answer is held to the bound."""
    pages: list[Any] = []
    inner: dict[str, Cut] = {}
    offset, unit = 0, ""
    while True:
        page = answer(data, part=part, offset=offset)
        assert len(page.text) <= MAX_CHARACTERS
        own = next((cut for cut in page.cut if cut.part == part), None)
        inner |= {cut.part: cut for cut in page.cut if cut.part != part}
        if own is None:
            pages.append(page.data)
            break
        unit = own.unit
        cut_text = isinstance(page.data, str)
        pages.append(page.data[: own.shown - offset] if cut_text else page.data)
        assert own.shown > offset or own.shown == own.of, "a page that brings nothing"
        offset = own.shown
        if own.shown == own.of:
            break
    joined: Any = pages[0]
    for more in pages[1:]:
        joined = {**joined, **more} if isinstance(joined, dict) else joined + more
    if unit == "characters of JSON":
        return json.loads(joined)
    for pointer in inner:
        if any(pointer.startswith(f"{other}/") for other in inner):
            continue  # comes with the part that holds it
        target, *steps = joined, *pointer[len(part) + 1 :].split("/")
        *way, last = [step.replace("~1", "/").replace("~0", "~") for step in steps]
        for step in way:
            target = target[int(step) if isinstance(target, list) else step]
        target[int(last) if isinstance(target, list) else last] = whole(data, pointer)
    return joined


@given(data=anything)
def test_following_the_cuts_gives_the_whole_and_no_answer_is_larger_than_promised(
    data: Any,
) -> None:
    assert whole(data) == data


@given(problem=texts, printed=texts, data=anything)
def test_problems_and_what_was_printed_are_bounded_with_the_data(
    problem: str, printed: str, data: Any
) -> None:
    assert len(answer(data, problem=problem, printed=printed).text) <= MAX_CHARACTERS
    refused = refusal(problem, printed)
    assert sum(len(getattr(block, "text", "")) for block in refused.content) <= MAX_CHARACTERS


@pytest.mark.parametrize(
    ("part", "offset", "said"),
    [
        ("/b", 0, "'/b'"),
        ("a", 0, "JSON Pointer"),
        ("/list/2", 0, "items 0 to 1"),
        ("/list/²", 0, "'²' is missing"),
        ("/list/-1", 0, "'-1' is missing"),
        ("/list", 3, "2 items"),
        ("/a", 1, "beyond the end"),
    ],
)
def test_a_part_that_is_not_there_is_named(part: str, offset: int, said: str) -> None:
    with pytest.raises(InputError) as refused:
        answer({"a": 1, "list": [1, 2]}, part=part, offset=offset)
    assert said in str(refused.value)
