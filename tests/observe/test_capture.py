"""Captured values: bounded, never raising, never changed."""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import json
import tracemalloc
from typing import Any
from unittest import mock

import msgspec
import numpy
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.observe import capture, plain
from ratchet.observe.capture import CAPTURE_LIMIT

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(blacklist_categories=["Cs"])),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text(st.characters(blacklist_categories=["Cs"])), inner)
    ),
    max_leaves=20,
)


@given(JSON)
def test_json_data_is_kept_as_it_is(value: Any) -> None:
    before = copy.deepcopy(value)
    assert plain(value) == value
    assert json.loads(capture(value, limit=10**9)) == value
    assert value == before


class Raises:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class RaisesEverywhere(Raises):
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class Surrogate:
    def __repr__(self) -> str:
        return "<\ud800>"


class Endless:
    def to_dict(self) -> Any:
        return self


class Text(str):
    __slots__ = ()


class Model:
    def model_dump(self) -> dict[str, int]:
        return {"a": 1}


@dataclasses.dataclass
class Data:
    x: int


class Colour(enum.Enum):
    RED = "red"


Point = collections.namedtuple("Point", "x y")

CYCLE: list[Any] = [1]
CYCLE.append(CYCLE)
RING: dict[str, Any] = {}
RING["self"] = RING
DEEP: Any = 1
for _ in range(100_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "value",
    [
        object(), Raises(), RaisesEverywhere(), [Raises()], {"a": RaisesEverywhere()}, Surrogate(),
        Endless(), CYCLE, RING, "\ud800", {"\ud800": 1}, 10**30, 10**5000, {(1, 2): 3},
        float("nan"), {1, "a", None}, lambda: 1, iter([1]), b"\xff", type, Endless, open,
        numpy.zeros((3, 3)), numpy.zeros(200_000), Exception("\udcff"), memoryview(b"x"), DEEP,
    ],
    ids=lambda v: type(v).__name__,
)  # fmt: skip
def test_anything_can_be_captured_and_stored(value: Any) -> None:
    assert len(capture(value)) < CAPTURE_LIMIT + 100
    capture(value).encode()
    stored = plain(value)
    assert msgspec.json.decode(msgspec.json.encode(stored)) == stored


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (numpy.float64(0.5), 0.5),
        (numpy.float32(0.5), 0.5),
        (numpy.int64(3), 3),
        (numpy.bool_(True), True),
        (numpy.array([[1, 2]]), [[1, 2]]),
        (Text("a"), "a"),
        ({"x": Text("a")}, {"x": "a"}),
        ({3, 1}, [1, 3]),
        ((1, 2), [1, 2]),
        (Point(1, 2), [1, 2]),
        (Data(1), {"x": 1}),
        (Model(), {"a": 1}),
        (Colour.RED, "red"),
        (collections.OrderedDict(a=1), {"a": 1}),
        (float("nan"), None),
    ],
)
def test_what_has_a_natural_form_in_json_gets_it(value: Any, expected: Any) -> None:
    assert plain(value) == expected
    assert type(plain(value)) is type(expected)


def test_an_iterator_is_not_used_up() -> None:
    iterator = iter([1, 2])
    capture({"it": iterator})
    plain(iterator)
    assert list(iterator) == [1, 2]


def test_a_captured_input_is_as_it_was_before_the_call() -> None:
    import ratchet
    from ratchet.observe import Collector, collecting

    @ratchet.trace
    def consume(items: list[int]) -> list[int]:
        items.clear()
        return items

    given_items = [1, 2]
    token = collecting.set(collector := Collector())
    try:
        assert consume(given_items) is given_items
    finally:
        collecting.reset(token)
    assert collector.spans[0].attributes["ratchet.input"] == '{"items":[1,2]}'
    assert collector.spans[0].attributes["ratchet.output"] == "[]"


class FarAway:
    """Makes up whatever attribute it is asked for, as proxies of remote things and mocks do."""

    def __init__(self) -> None:
        self.__dict__["asked"] = []

    def __getattr__(self, name: str) -> Any:
        self.__dict__["asked"].append(name)
        return lambda *_: self

    def __repr__(self) -> str:
        return "<far away>"


def test_objects_that_make_up_their_attributes_are_not_asked_for_any() -> None:
    thing, mocked = FarAway(), mock.MagicMock()
    assert json.loads(capture({"a": thing})) == {"a": "<far away>"}
    capture(mocked)
    assert thing.__dict__["asked"] == []
    assert not mocked.model_dump.called
    assert not mocked.to_dict.called


@dataclasses.dataclass
class Page:
    text: Any


class Sheet(msgspec.Struct):
    text: Any


HUGE = 20_000_000


@pytest.mark.parametrize(
    "wrap",
    [
        lambda text: Page(text),
        lambda text: {"page": Page(Page(text))},
        lambda text: [Sheet(text)],
        lambda text: (1, text),
        lambda text: {"messages": [{"content": [{"type": "image", "image_url": {"url": text}}]}]},
        lambda text: pydantic.create_model("Note", text=(str, ...))(text=text),
    ],
    ids=["dataclass", "nested", "struct", "row", "picture", "pydantic"],
)
def test_what_is_huge_is_cut_before_it_is_encoded(wrap: Any) -> None:
    value = wrap("é" * HUGE)
    tracemalloc.start()
    try:
        text = capture(value)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(text) < CAPTURE_LIMIT + 100
    assert "more characters" in text
    assert peak < HUGE / 4, "no copy of it was made"
