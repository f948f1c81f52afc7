"""Evaluators by name: what is misspelt or does not fit is named."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from ratchet.evaluate import BUILT_IN, make_evaluator
from ratchet.types import ConfigError
from tests.evaluate.conftest import ended, verdict

OWN = """
import functools
import ratchet

@ratchet.evaluator
def decorated(output):
    return 1.0

def plain(output):
    return 0.5

def at_least(threshold):
    @ratchet.evaluator
    def at_least(output):
        return output >= threshold
    return at_least

def picky(threshold):
    raise ValueError("too high")

def wrong(threshold):
    return threshold

def asks(answer):
    return 1.0

NUMBER = 3
"""

MODULES = itertools.count()


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of a user's own evaluators."""
    name = f"own_evaluators_{next(MODULES)}"
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_every_built_in_one_is_made_by_name() -> None:
    for name in BUILT_IN:
        options = {"schema": {"type": "object"}} if name == "json_schema" else {}
        assert make_evaluator(name, options).name == name


@pytest.mark.parametrize(
    ("use", "options", "words"),
    [
        ("exact_mach", {}, "no evaluator 'exact_mach'. Did you mean 'exact_match'"),
        ("zzz", {}, "The built-in ones are code_tests, contains, cost"),
        ("numeric", {"tolerence": 1}, "no option 'tolerence'. Did you mean 'tolerance'"),
        ("numeric", {"zzz": 1}, "It has decimal_comma, percent, relative, tolerance."),
        ("numeric", {"tolerance": "0.1"}, "Expected `float`, got `str`"),
        ("numeric", {"tolerance": True}, "Expected `float`, got `bool`"),
        ("numeric", {"tolerance": -1}, "Evaluator 'numeric': The tolerance is -1"),
        ("reciprocal_rank", {"k": 2.5}, "Expected `int`, got `float`"),
        ("reciprocal_rank", {"k": 0}, "k >= 1"),
        ("exact_match", {"ignore_case": "yes"}, "Expected `bool`, got `str`"),
        ("regex", {"pattern": 5}, "Expected `str | null`, got `int`"),
        ("regex", {"pattern": "("}, "not a regular expression"),
        ("json_schema", {}, "either a schema or a file"),
        ("json_schema", {"schema": "x"}, "Expected `object | null`, got `str`"),
        ("latency", {"within": "1"}, "got `str`"),
        ("trajectory", {"order": "sideways"}, "Invalid enum value 'sideways'"),
        ("trajectory", {"forbidden": "pay"}, "Expected `array`, got `str`"),
        ("overlap", {"metric": "f2"}, "Invalid enum value 'f2'"),
        ("sql", {"dialect": "mysequel"}, "unknown dialect"),
        (":f", {}, "cannot be loaded"),
        ("no_such_module:f", {}, "No module named 'no_such_module'"),
    ],
)
def test_what_does_not_fit_is_named(use: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        make_evaluator(use, options)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ("import math\nimport rapidfuzz_nope\n", 2, "install 'rapidfuzz_nope' or fix that line"),
        ("import math\n\nmath.sqrt(-1)\n", 3, "fix it there"),
        ("def judge(:\n", 1, "fix it there"),
    ],
)
def test_a_module_that_was_found_and_fails_is_named_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, line: int, words: str
) -> None:
    module = f"failing_evaluators_{line}"
    (tmp_path / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError) as raised:
        make_evaluator(f"{module}:judge", {})
    hint = raised.value.hint or ""
    assert f"{module!r} was found, but its import failed in {tmp_path / module}.py" in hint
    assert f", line {line}: {words}" in hint


def test_a_module_that_is_not_found_says_where_it_is_looked_for() -> None:
    for use in ("no_such_module:f", "math:no_such_function"):
        with pytest.raises(ConfigError) as raised:
            make_evaluator(use, {})
        assert "searched for in the folders" in (raised.value.hint or "")


def test_a_whole_number_is_a_fitting_float() -> None:
    assert make_evaluator("numeric", {"tolerance": 1}).version


def test_a_users_own_function_with_or_without_the_decorator(own: str) -> None:
    assert verdict(make_evaluator(f"{own}:decorated"), ended("a")).value == 1
    plain = make_evaluator(f"{own}:plain")
    assert (plain.name, verdict(plain, ended("a")).value) == ("plain", 0.5)


def test_a_users_own_function_with_options_makes_an_evaluator(own: str) -> None:
    low = make_evaluator(f"{own}:at_least", {"threshold": 1})
    high = make_evaluator(f"{own}:at_least", {"threshold": 5})
    assert verdict(low, ended(3)).value == 1
    assert verdict(high, ended(3)).value == 0
    assert low.version != high.version
    assert low.version == make_evaluator(f"{own}:at_least", {"threshold": 1}).version


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("missing", {}, "has no attribute 'missing'"),
        ("decorated", {"k": 1}, "takes no options"),
        ("NUMBER", {}, "is not a function"),
        ("NUMBER", {"k": 1}, "is not a function"),
        ("at_least", {"treshold": 1}, "do not fit"),
        ("picky", {"threshold": 1}, "ValueError: too high"),
        ("wrong", {"threshold": 1}, "but returned no evaluator"),
        ("asks", {}, "parameter 'answer'"),
    ],
)
def test_a_users_own_that_cannot_be_used_is_named(
    own: str, name: str, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        make_evaluator(f"{own}:{name}", options)
    assert words in str(raised.value)
    assert f"{own}:{name}" in str(raised.value)


def test_a_module_that_does_not_import_shows_its_own_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_evaluators.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match="ZeroDivisionError: division by zero"):
        make_evaluator("broken_evaluators:f")


def test_an_evaluator_may_be_used_twice_under_names_of_its_own() -> None:
    one = make_evaluator("regex", {"pattern": "a"}, name="has_a")
    other = make_evaluator("regex", {"pattern": "a"}, name="has_an_a")
    assert (one.name, other.name) == ("has_a", "has_an_a")
    assert one.version != other.version
    assert verdict(one, ended("a")).evaluator == "has_a"
