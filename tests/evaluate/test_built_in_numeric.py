"""Which number `numeric` reads in prose, and which numbers it calls equal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.evaluate import numeric
from tests.evaluate.conftest import ended, verdict


def value(output: Any, expected: Any, **options: Any) -> float | None:
    return verdict(numeric(**options), ended(output, expected)).value


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("about 3.5 million people", 3_500_000),
        ("roughly $12k a year", 12_000),
        ("3.5M users", 3_500_000),
        ("It is 5 m long", 5),
        ("1,234.50 EUR", 1234.5),
        ("1.234,50 EUR", 1234.5),
        ("1.234.567", 1_234_567),
        ("1'234'567 Franken", 1_234_567),
        ("1\u202f234\u202f567", 1_234_567),
        ("12,34,567 rupees", 1_234_567),
        ("-$5.20", -5.2),
        ("Points:\n- 42", 42),
        ("6.02 × 10^3 per mole", 6020),
        ("3/4 of a cup", 0.75),
        ("1 1/2 cups", 1.5),
        ("2½ hours", 2.5),
        ("on 12/05/2024 there were 7", 7),
    ],
)
def test_digits_with_separators_scales_and_fractions(text: str, number: float) -> None:
    assert value(text, number) == 1
    assert value(text, number + 1) == 0


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("Forty-two.", 42),
        ("one hundred and five", 105),
        ("two thousand three hundred and seven", 2307),
        ("a hundred", 100),
        ("two and a half million", 2_500_000),
        ("minus seven", -7),
        ("two dozen eggs", 24),
        ("half a dozen", 6),
        ("two thirds", 2 / 3),
        ("five point two five", 5.25),
        ("Of the 100 people, forty-two agreed.", 42),
        ("It is 7, and that is the right one.", 7),
    ],
)
def test_english_words(text: str, number: float) -> None:
    assert value(text, number) == 1
    assert value(text, number + 1) == 0


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("The answer is 42. I added 20 and 22.", 42),
        ("**Answer:** 42 (since 6 * 7 = 42, not 43)", 42),
        ("Answer: The 3 boxes hold 42 apples.", 42),
        ("The answer to question 3 is 42", 42),
        ("Final answer: 7\nThe answer of step 2 was 9.", 7),
        ("so \\boxed{\\frac{3}{4}} of 8", 0.75),
        ("The answer is $1{,}234$.", 1234),
        ("20 + 22 = 42\n#### 42", 42),
        ("The total is 42 for 3 people. Each of them pays 14.", 42),
        ("In total, 3 apples and 4 pears make 7.", 7),
        ("6 × 7 = 42, as step 3 shows", 42),
        ("It costs 42 dollars for 3 people.", 42),
        ("45, not 42", 45),
        ("3.14 (rounded to 2 decimal places)", 3.14),
        ("42 ± 3", 42),
        ("It has 42 points [3].", 42),
        ("150 cars were sold in 2024.", 150),
        ("It was founded in 2010.", 2010),
        ("The area is 12 m^2.", 12),
    ],
)
def test_the_number_that_counts(text: str, number: float) -> None:
    assert value(text, number) == 1


@pytest.mark.parametrize(
    "sign",
    ["-", "\u2212", "\u2010", "\u2013", "\uff0d", "\ufe63", "- ", "\u2013 ", "minus ", "negative "],
)
@pytest.mark.parametrize("said", ["{}", "The answer is {}.", "\\boxed{{{}}}", "x = {}", "**{}**"])
def test_a_sign_is_kept_however_it_is_written(sign: str, said: str) -> None:
    assert value(said.format(f"{sign}5"), -5) == 1
    assert value(said.format(f"{sign}5"), 5) == 0


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (r"\boxed{-\frac34}", -0.75),
        (r"$-\dfrac{3}{4}$", -0.75),
        (r"\boxed{\frac{-3}{4}}", -0.75),
        (r"\frac12", 0.5),
        (r"-2\frac{1}{2}", -2.5),
        (r"2\sqrt3", 2 * 3**0.5),
        (r"\boxed{\frac{\sqrt{3}}{2}}", 3**0.5 / 2),
        (r"\sqrt[3]{8}", 2),
        ("-√2", -(2**0.5)),
        ("2 * sqrt(3)", 2 * 3**0.5),
        ("2^{10}", 1024),
        ("2**10", 1024),
        ("10^5", 100_000),
        ("10⁵", 100_000),
        ("2^{-1}", 0.5),
        ("-2^2", -4),
        ("(-2)^2", 4),
        (r"\frac{\pi}{2}", 1.5707963267948966),
        ("2 × 105", 210),
        (r"The answer is $3\times 10^{5}$.", 300_000),
        ("\uff0d\uff15", -5),
    ],
)
def test_an_expression_is_its_value(text: str, number: float) -> None:
    assert value(text, number) == 1
    assert value(text, number + 1) == 0


@pytest.mark.parametrize("said", ["{}", "The answer is {}.", "Answer: {}", "\\boxed{{{}}}"])
@pytest.mark.parametrize(
    "answer",
    [
        *("(3,4)", "(3, 4)", "[3, 4]", "3, 4", "3 and 4", "3 or 4", "3 to 4", "3-4", "3\u20134"),
        *("3 - 4", "3:4", "3:40", "3.0.4", "3 4", "3 x 4", "3+4i", "x = 3 or x = 4", "2024-03-04"),
        *("3 feet 4 inches", "3'4\"", "3 hours and 4 minutes", "3h 4m", "3^n", "±4", r"\ln 4"),
        *("1,2,3", "3,14159", "10-7", "2024-04"),
    ],
)
def test_what_is_no_plain_number_equals_none(answer: str, said: str) -> None:
    for number in (3, 4, 40, 3.4, 7, -1, 12, 3.5, 3 / 4, 2024):
        score = verdict(numeric(), ended(said.format(answer), number))
        assert (score.value, score.rationale) == (0, "the output holds no plain number")


def test_an_expected_answer_that_is_no_plain_number_is_an_error() -> None:
    score = verdict(numeric(), ended("7", "7:30"))
    assert score.value is None
    assert "The expected answer '7:30' holds no plain number." in score.error


def test_a_part_of_a_number_is_not_the_number() -> None:
    assert value("It was in 2010.", 10) == 0
    assert value("The answer is 110", 10) == 0
    assert value("18.00", 18) == 1
    assert value("18.005", 18) == 0


def test_nothing_is_rounded() -> None:
    assert value("123456", 123457) == 0
    assert value("1234567.891", 1234567.892) == 0
    assert value("3.14", 3.14159) == 0


@pytest.mark.parametrize(
    ("output", "expected", "percent", "score"),
    [
        ("12%", 12, "either", 1),
        ("12%", 0.12, "either", 1),
        ("12 percent", 0.12, "either", 1),
        ("12%", "0.12%", "either", 0),
        ("0.12", 12, "either", 0),
        ("12%", 0.12, "number", 0),
        ("12%", 12, "number", 1),
        ("12%", 0.12, "fraction", 1),
        ("12%", 12, "fraction", 0),
    ],
)
def test_percentages(output: str, expected: Any, percent: Any, score: float) -> None:
    assert value(output, expected, percent=percent) == score


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1.234,50", 1234.5),
        ("3,14", 3.14),
        ("1.234", 1234),
        ("es sind 12,5 %", 12.5),
        ("7", 7),
        ("0,125", "0.125"),
        ("0,5", "0.5"),
        ("12,50", "12.50"),
    ],
)
def test_commas_may_be_decimal(text: str, number: Any) -> None:
    assert value(text, number, decimal_comma=True) == 1


def test_the_expected_answer_may_be_prose_too() -> None:
    assert value("72", "48 / 2 = 24, and 48 + 24 = 72 clips.\n#### 72") == 1
    assert value("24", "48 / 2 = 24, and 48 + 24 = 72 clips.\n#### 72") == 0


@given(st.text("0123456789 ,.-/%$=()[]^{}\\aboxedfrcMk\n", max_size=80))
def test_any_text_has_a_number_or_none(text: str) -> None:
    assert value(text, 1) in (0, 1)


@pytest.mark.parametrize("part", ["a = ", "answer ", "(", "one ", "1/", "1.", "total is ", "5 ("])
def test_long_texts_are_read_in_linear_time(part: str) -> None:
    # Backtracking over so many characters would take longer than anybody waits.
    assert value(part * 25_000 + "x", 12345.5) == 0
