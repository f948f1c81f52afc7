"""e-BH: which nulls are rejected."""

from __future__ import annotations

from itertools import permutations

from ratchet.stats.multiple import e_bh


def test_of_two_a_single_rejection_takes_twice_as_much_and_two_do_not() -> None:
    assert e_bh({"a": 39.0, "b": 1.0}, 0.05) == frozenset()
    assert e_bh({"a": 40.0, "b": 1.0}, 0.05) == {"a"}
    assert e_bh({"a": 39.0, "b": 20.0}, 0.05) == {"a", "b"}


def test_the_order_of_the_nulls_does_not_matter() -> None:
    values = {"a": 50.0, "b": 35.0, "c": 30.0, "d": 1.0}
    assert {e_bh(dict(each), 0.05) for each in permutations(values.items())} == {
        frozenset({"a", "b", "c"})
    }
