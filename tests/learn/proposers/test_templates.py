"""Rewrites keep placeholders and signatures, or are refused with a sentence."""

from __future__ import annotations

import pytest

from ratchet.learn.proposers.templates import UnusableAnswer, rewritten_code, rewritten_prompt
from ratchet.types import Code, PromptTemplate

PROMPT = PromptTemplate("You work for {office}.\nAnswer briefly.\nQuestion: {question}")
CODE = Code("def rank(items, bonus=1.0):\n    return sorted(items)\n", "rank")


def prompt(text: str, baseline: PromptTemplate = PROMPT) -> PromptTemplate:
    return rewritten_prompt(text, baseline, 4.0)


def test_a_sound_rewrite_stays_as_it_is() -> None:
    text = "You help at {office}.\nBe exact.\nQuestion: {question}"
    assert prompt(text).text == text


def test_a_lost_placeholder_comes_back_with_its_line() -> None:
    made = prompt("You help at {office}. Be exact.")
    assert made.placeholders == PROMPT.placeholders
    assert made.text.endswith("Question: {question}")


def test_braces_that_are_no_placeholders_are_meant_literally() -> None:
    made = prompt('{office}: answer as {"room": "R1", "why": {}} to {question}')
    assert made.format(office="A", question="Q") == 'A: answer as {"room": "R1", "why": {}} to Q'


def test_an_invented_placeholder_is_refused_not_printed() -> None:
    with pytest.raises(UnusableAnswer, match=r"\{place\}, which nothing fills"):
        prompt("{office} {place} {question}")


def test_a_placeholder_that_was_called_otherwise_gets_its_name_back_in_its_place() -> None:
    made = prompt("You work for {location}.\nAnswer briefly and politely.\nQuestion: {question}")
    assert made.text == "You work for {office}.\nAnswer briefly and politely.\nQuestion: {question}"


def test_a_rewrite_is_aligned_with_what_it_was_made_from() -> None:
    parent = PromptTemplate("You book rooms of {office}.\nBe kind.\nQuestion: {question}")
    text = "You book rooms of the firm.\nBe kind.\nBe exact.\nQuestion: {question}"
    made = rewritten_prompt(text, PROMPT, 4.0, parent)
    assert made.text == text.replace("the firm", "{office}")


def test_jinja_that_does_not_parse_is_refused() -> None:
    own = PromptTemplate("Hello {{ name }}", "jinja2")
    assert prompt("Dear {{ name }}", own).placeholders == {"name"}
    with pytest.raises(UnusableAnswer, match="not usable as a template"):
        prompt("Dear {{ name }} {% if %}", own)


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "emptied the prompt"), ("  \n", "emptied"), ("x" * 5000 + "{office}{question}", "5018")],
)
def test_empty_and_endless_prompts_are_refused(text: str, words: str) -> None:
    with pytest.raises(UnusableAnswer, match=words):
        prompt(text)


def test_another_language_that_throws_everything_away_loses_too_much_to_repair() -> None:
    long = PromptTemplate("You work for {office} " + "and do many things there " * 20)
    with pytest.raises(UnusableAnswer, match=r"lost the placeholder \{office\}"):
        prompt("Du bist ein Assistent.", long)


def code(text: str) -> Code:
    return rewritten_code(text, CODE, 4.0)


def test_a_function_is_taken_out_of_what_stands_around_it() -> None:
    made = code(
        "import math\n\n@decorated\ndef rank(items, bonus=1.0):\n"
        '    """Orders."""\n    return sorted(items, key=lambda i: -math.log(i))\n'
    )
    assert made.source == (
        'def rank(items, bonus=1.0):\n    """Orders."""\n    import math\n'
        "    return sorted(items, key=lambda i: -math.log(i))\n"
    )


def test_an_indented_function_is_dedented() -> None:
    assert code("    def rank(items, bonus=1.0):\n        return items\n").source.startswith("def")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def rank(items, bonus=1.0):\n    return (\n", "does not parse"),
        ("def order(items, bonus=1.0):\n    return items\n", "does not define 'rank'"),
        ("def rank(items):\n    return items\n", "changes the signature"),
        ("def rank(items, bonus=2.0):\n    return items\n", "changes the signature"),
        ("async def rank(items, bonus=1.0):\n    return items\n", "changes the signature"),
        ("Ich kann das nicht.", "does not parse"),
        ("x = 1\n" * 3000, "at most"),
    ],
)
def test_code_that_is_no_such_function_is_refused(text: str, words: str) -> None:
    with pytest.raises(UnusableAnswer, match=words):
        code(text)
