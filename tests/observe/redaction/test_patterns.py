"""A project's own regular expressions: what is taken, what is refused, how long they may take."""

from __future__ import annotations

import time

import pytest

from ratchet.observe.redaction import RedactionRules, Redactor, patterns
from ratchet.types import ConfigError


def redactor(**named: str) -> Redactor:
    return Redactor(RedactionRules(patterns=named))


def test_what_a_pattern_matches_is_taken_out_under_its_name() -> None:
    own = redactor(staff=r"\bEMP-\d{6}\b", case_=r"(?i)case\s?no\.?\s?[a-z]\d++")
    assert (
        own.text("ask EMP-123456 about Case No. B77")
        == "ask [redacted:staff] about [redacted:case_]"
    )
    assert own.text("nothing of the kind") == "nothing of the kind"


def test_a_match_is_found_in_a_long_text_wherever_it_stands() -> None:
    own = redactor(staff=r"EMP-\d{6}")
    for before in (0, patterns.WINDOW - 5, patterns.WINDOW, 3 * patterns.WINDOW - 7):
        text = "x" * before + "EMP-123456" + "y" * 5_000
        assert own.text(text) == "x" * before + "[redacted:staff]" + "y" * 5_000


@pytest.mark.parametrize(
    "source",
    [
        r"(a+)+$",
        r"(\w+\s?)*x",
        r"(a|a)*b",
        r"\d+-\d+-\d+",
        r".*secret.*",
        r"(\w{1,50}){1,50}",
        r"(?:a?){40}a{40}",
        r"(x)\1",
        r"(?=(\w+)+y)",
        "[0-9",
        "a" * 501,
        "",
    ],
)
def test_a_pattern_that_might_take_for_ever_is_refused(source: str) -> None:
    with pytest.raises(ConfigError, match=r"patterns\.own"):
        redactor(own=source)


@pytest.mark.parametrize(
    "source",
    [
        r"\d+",
        r"\d++-\d++-\d++",
        r"(?>\w+)@ours",
        r"[A-Z]{2}\d{4,8}",
        r"(?:ab|cd){1,3}x",
        r"(?<=id )\w+",
    ],
)
def test_a_pattern_with_few_ways_is_taken(source: str) -> None:
    assert redactor(own=source).text("nothing") is not None


def test_names_and_numbers_of_patterns_are_bounded() -> None:
    with pytest.raises(ConfigError, match="is not a valid name for a pattern"):
        redactor(**{"my pattern]": "x"})
    with pytest.raises(ConfigError, match="51 patterns"):
        redactor(**{f"p{number}": "x" for number in range(51)})


def test_a_text_with_which_the_patterns_are_not_through_in_time_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patterns, "TIME_LIMIT_S", -1.0)
    assert redactor(own="x").text("nothing of the kind") == "[redacted:timeout]"


def test_the_worst_that_is_taken_ends_in_time() -> None:
    own = redactor(own=r"a+b", two=r"(?:a|b){0,9}c", three=r"\w{1,40}\d{1,40}x")
    begun = time.process_time()
    own.text("a" * 262_144)
    assert time.process_time() - begun < 8
