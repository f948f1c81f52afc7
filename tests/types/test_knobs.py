"""Knobs hold what lies within their bounds, and nothing else."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ratchet.types import Bool, Choice, Float, InputError, Int, Params, version_of
from ratchet.types.knobs import infer


@pytest.mark.parametrize(
    ("kind", "arguments", "words"),
    [
        (Int, (5, 6, 9), "outside"),
        (Int, (5, 9, 1), "above high"),
        (Int, (5.0, 1, 9), "whole number"),
        (Int, (True, 0, 9), "whole number"),
        (Int, (0, 0, 9, True), "logarithmic"),
        (Float, (0.5, 0.0, 1.0, True), "logarithmic"),
        (Float, (-1.0, -2.0, 1.0, True), "logarithmic"),
        (Float, (float("nan"), 0.0, 1.0), "not finite"),
        (Float, (0.5, 0.0, float("inf")), "not finite"),
        (Float, (10**400, 0, 1), "not finite"),
        (Float, ("0.5", 0, 1), "not a number"),
        (Float, (True, 0, 1), "not a number"),
        (Choice, ("a", ()), "at least one"),
        (Choice, ("a", ("b",)), "not one of"),
        (Choice, ("a", ("a", "a")), "not all different"),
        (Choice, (1, (1, [2])), "neither a string"),
        (Choice, (float("inf"), (float("inf"),)), "not finite"),
        (Choice, ("a", "abc"), "not a list"),
        (Choice, ("a", 3), "not a list"),
        (Choice, (1, (True,)), "not one of"),
        (Bool, (1,), "True or False"),
    ],
)
def test_a_knob_that_makes_no_sense_is_refused(kind: Any, arguments: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        kind(*arguments)


@pytest.mark.parametrize(
    ("knob", "good", "bad"),
    [
        (Int(5, 1, 20), [1, 20], [0, 21, 5.0, "5", True, None]),
        (Int(5, 1, 20, log=True), [1, 20], [0]),
        (Float(0.5, 0.0, 1.0), [0, 1, 0.25], [-0.1, 1.1, float("nan"), "0.5", False, 10**400]),
        (Choice("a", ("a", 1, 2.5, True)), ["a", 1, 2.5, True], ["b", 1.0, False, None]),
        (Bool(True), [True, False], [0, 1, "true", None]),
    ],
)
def test_values_are_checked_and_the_knob_is_named(knob: Any, good: Any, bad: Any) -> None:
    for value in good:
        assert knob.check("k", value) == value
    for value in bad:
        with pytest.raises(InputError, match=r"^k = "):
            knob.check("k", value)


@pytest.mark.parametrize(
    ("value", "knob"),
    [
        (5, Int(5, 1, 20, log=True)),
        (100, Int(100, 25, 400, log=True)),
        (0.3, Float(0.3, 0.0, 1.0)),
        (0.0, Float(0.0, 0.0, 1.0)),
        (1.0, Float(1.0, 0.0, 1.0)),
        (8.0, Float(8.0, 2.0, 32.0, log=True)),
        (True, Bool(True)),
        (Choice(1, (1, 2)), Choice(1, (1, 2))),
    ],
)
def test_a_bare_default_stands_for_a_knob(value: Any, knob: Any) -> None:
    assert infer("k", value) == knob


@pytest.mark.parametrize("value", [0, -3, -0.5, float("nan"), float("inf"), "text", None, [1]])
def test_a_default_that_says_no_range_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match=re.escape("ratchet.Int, Float, Choice or Bool")):
        infer("k", value)


def test_replacing_keeps_the_others_and_the_original() -> None:
    params = Params({"k": Int(5, 1, 20), "t": Float(0.5, 0, 1)})
    moved = params.replace(k=9)
    assert (moved.values, params.values) == ({"k": 9, "t": 0.5}, {"k": 5, "t": 0.5})
    with pytest.raises(InputError, match="k = 21 is outside"):
        params.replace(k=21)


def test_a_source_that_took_over_the_values_has_the_candidates_version() -> None:
    candidate = Params({"k": Int(5, 1, 20), "m": Choice("a", ("a", "b"))}).replace(k=9, m="b")
    edited = Params({"k": Int(9, 1, 20), "m": Choice("b", ("a", "b"))})
    assert version_of(candidate) == version_of(edited)
