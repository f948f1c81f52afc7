"""What the evaluators of data and lists say: json_match, overlap."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from ratchet.evaluate import json_match, overlap
from ratchet.types import InputError, Score
from tests.evaluate.conftest import ended, verdict


def matched(output: Any, expected: Any, **options: Any) -> Score:
    return verdict(json_match(**options), ended(output, expected))


ORDER = {"id": 7, "items": [{"sku": "a", "qty": 1}, {"sku": "b", "qty": 2}], "total": 10.0}


@pytest.mark.parametrize(
    ("output", "share", "note"),
    [
        (ORDER, 1, ""),
        ({**ORDER, "total": 10}, 1, ""),
        ({**ORDER, "total": 11}, 5 / 6, "total: expected 10.0, got 11"),
        ({**ORDER, "total": "10.0"}, 5 / 6, 'total: expected 10.0, got "10.0"'),
        ({**ORDER, "id": True}, 5 / 6, "id: expected 7, got true"),
        ({**ORDER, "more": 1}, 6 / 7, "more: expected nothing, got 1"),
        ({"id": 7, "items": []}, 1 / 6, "total: expected 10.0, got nothing"),
        (
            {"id": 7, "items": ORDER["items"][:1], "total": 10.0},
            4 / 6,
            'items.1: expected {"sku": "b", "qty": 2}, got nothing',
        ),
        (
            {**ORDER, "items": ORDER["items"][::-1]},
            2 / 6,
            'items.0.sku: expected "a", got "b"',
        ),
        ([], 0, "got []"),
        (
            '{"id": 7, "items": [], "total": 10}',
            2 / 6,
            'items.0: expected {"sku": "a", "qty": 1}, got nothing',
        ),
        (
            'It is\n```json\n{"id": 7, "items": [], "total": 10}\n```',
            2 / 6,
            'items.0: expected {"sku": "a", "qty": 1}, got nothing',
        ),
        ("not JSON", 0, "the output is not JSON"),
        (None, 0, "got null"),
    ],
)
def test_the_share_of_equal_fields(output: Any, share: float, note: str) -> None:
    score = matched(output, ORDER)
    assert score.value == pytest.approx(share), score
    assert note in score.rationale


def test_tolerance_ignored_places_order_extra_fields_and_strictness() -> None:
    other = {
        "id": 8,
        "items": [{"sku": "b", "qty": 2, "at": 1}, {"sku": "a", "qty": 1, "at": 2}],
        "total": 10.4,
    }
    assert matched(other, ORDER, strict=True).value == 0
    lenient = {"tolerance": 0.05, "relative": True, "ignore": ["id", "items.*.at"]}
    assert matched(other, ORDER, **lenient, ordered=False, strict=True).value == 1
    assert matched(other, ORDER, **lenient, strict=True).value == 0
    assert matched({**ORDER, "x": 1}, ORDER, extra=False, strict=True).value == 1
    assert matched({"id": 1}, {"id": 2}, ignore=["id"]).error.endswith("is ignored.")


def test_105_is_not_nearly_100() -> None:
    assert matched({"n": 105}, {"n": 100}).value == 0
    assert matched({"n": 105}, {"n": 100}, tolerance=5).value == 1


def test_unordered_lists_match_repeated_items_as_often_as_they_are() -> None:
    options = {"ordered": False, "strict": True}
    assert matched([1, 1, 2], [2, 1, 1], **options).value == 1
    assert matched([1, 2, 2], [2, 1, 1], **options).value == 0
    assert "more than 300 items" in matched([0] * 301, [0], **options).error


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xyz", max_size=1), inner),
    max_leaves=8,
)


def overlapped(output: Any, expected: Any, **options: Any) -> float | None:
    return verdict(overlap(**options), ended(output, expected)).value


@pytest.mark.parametrize(
    ("output", "expected", "options", "score"),
    [
        (["a", "b"], ["b", "a"], {}, 1),
        (["a", "b", "c", "d"], ["a", "b"], {}, 2 / 3),
        (["a", "b", "c", "d"], ["a", "b"], {"metric": "precision"}, 1 / 2),
        (["a", "b", "c", "d"], ["a", "b"], {"metric": "recall"}, 1),
        (["a", "b", "c", "d"], ["a", "b"], {"metric": "jaccard"}, 1 / 2),
        (["a", "a"], ["a"], {"metric": "precision"}, 1 / 2),
        (["b", "a"], ["a", "b"], {"ordered": True}, 1 / 2),
        (["a", "x", "b"], ["a", "b"], {"ordered": True, "metric": "recall"}, 1),
        ([], [], {}, 1),
        ([], ["a"], {}, 0),
        (None, ["a"], {}, 0),
        (["A"], ["a"], {}, 1),
        (["A"], ["a"], {"ignore_case": False}, 0),
        ([1, 2.0], [1.0, 2], {}, 1),
        (["1"], [1], {}, 0),
        ([True], [1], {}, 0),
        ("1, 2", [1, 2], {}, 1),
        ("- red\n- green", ["green", "red"], {}, 1),
        ("1. red\n2. green", "red; green", {}, 1),
        ('["red", "green"]', ["green", "red"], {}, 1),
        ([{"a": 1, "b": 2}], [{"b": 2, "a": 1}], {}, 1),
    ],
)
def test_overlap(output: Any, expected: Any, options: Any, score: float) -> None:
    assert overlapped(output, expected, **options) == pytest.approx(score)


def test_what_is_no_list_or_too_long_is_unscored() -> None:
    assert "Only sets and lists" in verdict(overlap(), ended({"a": 1}, ["a"])).error
    long = verdict(overlap(ordered=True), ended(["a"] * 2001, ["a"]))
    assert "more than 2000 items" in long.error


@pytest.mark.parametrize("tolerance", [-1, float("nan"), float("inf")])
def test_a_tolerance_out_of_range_is_refused(tolerance: float) -> None:
    with pytest.raises(InputError, match="The tolerance"):
        json_match(tolerance=tolerance)
