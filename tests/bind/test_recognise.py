"""Which texts are a registered prompt with its slots filled, and what replaces them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.bind import recognise as module
from ratchet.bind.recognise import (
    MIN_CONSTANT,
    MIN_PIECE,
    RecognisedPrompt,
    Recogniser,
    RegisteredPrompt,
    recognise,
    refill,
    refusal,
    shape_of,
    with_whitespace_of,
)
from ratchet.types import InputError, PromptTemplate

BOOKING = PromptTemplate(
    "You are a booking assistant for {company}.\n\nToday is {date}.\n{documents}\nBe brief."
)
BOOKED = {"company": "ACME", "date": "2026-11-02", "documents": "one\n\ntwo"}


def jinja(text: str) -> PromptTemplate:
    return PromptTemplate(text, "jinja2")


def test_a_filled_template_is_recognised_with_what_fills_it() -> None:
    assert recognise(BOOKING, BOOKING.format(**BOOKED)) == BOOKED


def test_a_prompt_without_slots_is_recognised_by_its_whole_text() -> None:
    fixed = PromptTemplate("Be brief.")
    assert recognise(fixed, "Be brief.") == {}
    assert recognise(fixed, "Be brief. Please.") is None
    assert recognise(fixed, "Please. Be brief.") is None


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("booking", "cooking"),
        lambda text: text.removesuffix("Be brief."),
        lambda text: text + " And polite.",
        lambda text: "Hello. " + text,
        lambda text: text.replace("Today is", "Today was"),
        lambda text: "",
    ],
)
def test_another_text_is_not_recognised(change: Any) -> None:
    assert recognise(BOOKING, change(BOOKING.format(**BOOKED))) is None


def test_doubled_braces_are_braces_of_the_text() -> None:
    template = PromptTemplate('Answer with JSON such as {{"answer": "{example}"}} and no more.')
    text = 'Answer with JSON such as {"answer": "{x}"} and no more.'
    assert recognise(template, text) == {"example": "{x}"}
    assert refill(template, {"example": "{x}"}) == text


def test_what_fills_a_slot_is_never_read_as_a_template() -> None:
    evil = "{company} {0.__class__} {{ config }} %s {unknown"
    slots = recognise(BOOKING, BOOKING.format(**{**BOOKED, "documents": evil}))
    assert slots is not None
    for other in (
        PromptTemplate("Short. {documents} {{documents}} {company}"),
        jinja("Short. {{ documents }} {% raw %}{documents}{% endraw %} {{ company }}"),
    ):
        assert refill(other, slots) == f"Short. {evil} {{documents}} ACME"


def test_each_slot_takes_as_little_as_it_can_from_left_to_right() -> None:
    template = PromptTemplate("The question of the user is {question}; answer it in {language}.")
    text = "The question of the user is why; answer it in time; answer it in French."
    assert recognise(template, text) == {
        "question": "why",
        "language": "time; answer it in French",
    }


def test_a_slot_that_stands_twice_has_to_be_filled_alike() -> None:
    template = PromptTemplate("You speak {language} only. Everything in {language}, always.")
    assert recognise(template, template.format(language="French")) == {"language": "French"}
    assert recognise(template, template.format(language="a only. b")) == {"language": "a only. b"}
    assert recognise(template, "You speak French only. Everything in Thai, always.") is None


def test_a_slot_with_a_format_is_refilled_only_where_the_same_stands() -> None:
    template = PromptTemplate("Offer at most {price:.2f} dollars to {user.name} and {tag!r}, {x!s}")

    class User:
        name = "Ann"

    text = template.format(price=3.14159, user=User(), tag="vip", x=1)
    slots = recognise(template, text)
    assert slots == {"price:.2f": "3.14", "user.name": "Ann", "tag!r": "'vip'", "x": "1"}
    assert refill(PromptTemplate("{user.name}: {price:.2f} {x}"), slots) == "Ann: 3.14 1"
    for other in ("{price}", "{price:.3f}", "{user}", "{tag}"):
        with pytest.raises(InputError, match="has a slot"):
            refill(PromptTemplate(other), slots)


def test_slots_that_follow_one_another_directly_stay_together() -> None:
    template = PromptTemplate("You are the assistant of {first}{last}, {title} for short.")
    slots = recognise(template, "You are the assistant of AnnLee, Dr for short.")
    assert slots == {"first}{last": "AnnLee", "title": "Dr"}
    assert refill(PromptTemplate("{title} {first}{last}"), slots) == "Dr AnnLee"
    assert refill(jinja("{{ title }} {{ first }}{{ last }}"), slots) == "Dr AnnLee"
    with pytest.raises(InputError, match=r"slot \{last\}"):
        refill(PromptTemplate("{last}"), slots)


def test_a_candidate_that_needs_a_slot_which_nothing_fills_is_refused() -> None:
    with pytest.raises(InputError, match=r"slot \{weather\} .* \['company', 'date', 'documents'\]"):
        refill(PromptTemplate("Be kind. It is {weather}."), BOOKED)


def test_jinja_templates_of_text_and_names_are_recognised() -> None:
    template = jinja(
        "You help the user {{ user }}.\n{# a note #}{%- raw %}{{x}}{% endraw %}\n{{day}} it is.\n"
    )
    text = template.format(user="Ann {{ y }}", day="Monday")
    assert recognise(template, text) == {"user": "Ann {{ y }}", "day": "Monday"}


@pytest.mark.parametrize(
    "text",
    [
        "You are a helpful assistant of {% if a %}{{ a }}{% endif %}",
        "You are a helpful assistant of {{ a | upper }}",
        "You are a helpful assistant of {{ a.b }}",
        "You are a helpful assistant of {{ 1 + 1 }}",
        "You are a helpful assistant. {% for _ in range(99999) %}{% endfor %}",
    ],
)
def test_jinja_logic_is_never_run(text: str) -> None:
    template = jinja(text)
    assert "logic" in refusal(template)
    assert recognise(template, text) is None
    with pytest.raises(InputError, match="logic"):
        refill(template, {"a": "b"})


@pytest.mark.parametrize("text", ["", " \n", "{x}", "Hi {x}", "a {x} b {y} c {z}" * 9])
def test_a_template_that_would_be_found_in_any_text_is_refused(text: str) -> None:
    assert refusal(PromptTemplate(text))
    assert recognise(PromptTemplate(text), text) is None


def test_the_refusal_says_how_much_constant_text_there_is() -> None:
    reason = refusal(PromptTemplate("Help {user} now"))
    assert "7 characters" in reason
    assert f"{MIN_CONSTANT} and {MIN_PIECE}" in reason


STRIPPED = ["  \n{}", "{}\n", "{}\r\n\r\n", "\t{}  "]


@pytest.mark.parametrize("form", STRIPPED)
def test_white_space_at_the_ends_may_differ(form: str) -> None:
    text = BOOKING.format(**BOOKED)
    assert recognise(BOOKING, form.replace("{}", text)) == BOOKED
    assert recognise(PromptTemplate(form.replace("{}", BOOKING.text)), text) == BOOKED


def test_line_ends_may_differ() -> None:
    text = BOOKING.format(**BOOKED)
    assert recognise(BOOKING, text.replace("\n", "\r\n")) == BOOKED
    crlf = PromptTemplate(BOOKING.text.replace("\n", "\r\n"))
    assert recognise(crlf, text) == BOOKED
    mixed = {**BOOKED, "documents": "a\r\nb"}
    assert recognise(BOOKING, BOOKING.format(**mixed)) == mixed


@pytest.mark.parametrize(
    ("template", "text", "slots"),
    [
        ("You are a booking assistant. {policy}", "You are a booking assistant.", {"policy": ""}),
        ("{preamble}\n\nYou are an assistant.", "You are an assistant.", {"preamble": ""}),
        ("{a}\nYou are an assistant.\n{b}\n", "You are an assistant.", {"a": "", "b": ""}),
        ("You are an assistant.\n{b}\n", "You are an assistant.\n\n", {"b": ""}),
    ],
)
def test_an_empty_slot_at_an_end_may_have_been_stripped_with_its_white_space(
    template: str, text: str, slots: dict[str, str]
) -> None:
    assert recognise(PromptTemplate(template), text) == slots


def test_a_prompt_takes_the_place_of_another_as_it_stood_there() -> None:
    assert with_whitespace_of("new\ntext\n", "old\r\ntext") == "new\r\ntext"
    assert with_whitespace_of("new\n", "old") == "new"
    assert with_whitespace_of("new\n", "old\n") == "new\n"
    assert with_whitespace_of("new", "\told ") == "\tnew "
    assert with_whitespace_of("a\r\nb\n", "x\r\ny\n") == "a\r\nb\n"


NAMES = st.sampled_from(["a", "b", "c", "day"])
WORDS = st.text(st.sampled_from("ab {}\n.x"), max_size=12)


@st.composite
def templates(draw: st.DrawFn) -> PromptTemplate:
    """F-string templates that are never refused, from an alphabet that repeats itself."""
    parts = [draw(WORDS).replace("{", "{{").replace("}", "}}"), "the constant text of this"]
    for _ in range(draw(st.integers(0, 5))):
        parts.append("{" + draw(NAMES) + "}")
        parts.append(draw(WORDS).replace("{", "{{").replace("}", "}}"))
    return PromptTemplate("".join(parts))


VALUES = st.fixed_dictionaries(dict.fromkeys(["a", "b", "c", "day"], WORDS | st.text(max_size=9)))


@given(templates(), VALUES)
def test_what_is_recognised_refills_to_the_same_text(
    template: PromptTemplate, values: dict[str, str]
) -> None:
    text = template.format(**values)
    slots = recognise(template, text)
    repeated = len(set(shape_of(template).slots)) < len(shape_of(template).slots)
    if slots is None:
        # Only where a slot stands twice the search may end before it has found the way.
        assert repeated
        return
    assert refill(template, slots) == text


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_two_texts_are_handled(template: str, text: str) -> None:
    escaped = PromptTemplate(template.replace("{", "{{").replace("}", "}}"))
    same = template.strip().replace("\r\n", "\n") == text.strip().replace("\r\n", "\n")
    assert (recognise(escaped, text) == {}) == (same and bool(template.strip()))
    try:
        wild = PromptTemplate(template)
    except InputError:
        return
    recognise(wild, text)


class Counted(str):
    """A text that counts how often something is looked for in it."""

    looked = 0

    def find(self, *arguments: Any) -> int:
        Counted.looked += 1
        return super().find(*arguments)

    def startswith(self, *arguments: Any) -> bool:
        Counted.looked += 1
        return super().startswith(*arguments)

    def strip(self, *arguments: Any) -> Counted:
        return Counted(super().strip(*arguments))


@pytest.mark.parametrize(
    "template",
    [
        "a constant of some length " + "{x}a{y}a{z}a" * 3 + "{x}b",
        "a constant of some length " + "".join(f"{{s{n}}}a" for n in range(40)) + "b",
        "a constant of some length " + "{x}aa{y}aa{x}aa{y}b{x}",
    ],
)
def test_no_text_takes_more_than_a_bounded_number_of_steps(template: str) -> None:
    made = PromptTemplate(template)
    Counted.looked = 0
    assert recognise(made, Counted("a constant of some length " + "a" * 20_000)) is None
    # Two passes, exact and stripped; each looks once a slot, and a few hundred times beyond.
    assert Counted.looked <= 2 * (2 * (len(shape_of(made).slots) + module.MAX_STEPS) + 4)


def test_a_text_beyond_the_limit_is_not_looked_at() -> None:
    huge = "You are a helpful assistant. " + "x" * module.MAX_TEXT
    template = PromptTemplate("You are a helpful assistant. {rest}")
    assert recognise(template, huge) is None
    assert Recogniser([RegisteredPrompt("system", "v1", template)]).find(huge) is None


def registered(*texts: str, name: str = "system") -> list[RegisteredPrompt]:
    return [
        RegisteredPrompt(name, f"v{number}", PromptTemplate(text))
        for number, text in enumerate(texts, start=1)
    ]


def test_of_several_templates_the_one_with_the_most_constant_text_is_found() -> None:
    many = Recogniser(
        registered(
            "You are a helpful assistant. {rest}",
            "You are a helpful assistant. Today is {date}. {rest}",
            "{anything} You are a helpful assistant.",
            "You are a helpful assistant. Today is Monday. Be brief.",
        )
    )
    found = many.find("You are a helpful assistant. Today is Monday. Be kind.")
    assert found == RecognisedPrompt("system", "v2", {"date": "Monday", "rest": "Be kind."})
    fixed = many.find("You are a helpful assistant. Today is Monday. Be brief.\n")
    assert fixed == RecognisedPrompt("system", "v4", {})
    assert many.find("Wait. You are a helpful assistant.") == RecognisedPrompt(
        "system", "v3", {"anything": "Wait."}
    )
    assert many.find("Something else altogether.") is None
    assert len(many) == 4


def test_of_equal_templates_the_later_one_is_found() -> None:
    many = Recogniser(registered("You are a helper of {a}.", "You are a helper of {b}."))
    found = many.find("You are a helper of Ann.")
    assert found == RecognisedPrompt("system", "v2", {"b": "Ann"})
    # But a text that is one of them to the letter is that one.
    exact = Recogniser(registered("You are a helper.\n", "You are a helper."))
    assert exact.find("You are a helper.\n") == RecognisedPrompt("system", "v1", {})
    assert exact.find(" You are a helper.") == RecognisedPrompt("system", "v2", {})


def test_templates_that_are_refused_are_named_with_the_reason() -> None:
    many = Recogniser(registered("Hi {x}", "You are a helpful assistant."))
    assert list(many.refused) == [("system", "v1")]
    assert "constant text" in many.refused["system", "v1"]
    assert len(many) == 1


@given(st.lists(templates(), min_size=1, max_size=6), VALUES, st.data())
def test_the_index_finds_what_trying_all_would_find(
    some: list[PromptTemplate], values: dict[str, str], data: st.DataObject
) -> None:
    text = data.draw(st.sampled_from(some)).format(**values)
    text = data.draw(st.sampled_from([text, text.strip(), text.replace("\n", "\r\n")]))
    found = Recogniser([RegisteredPrompt("n", str(k), t) for k, t in enumerate(some)]).find(text)
    fitting = [t for t in some if recognise(t, text) is not None]
    assert (found is None) == (not fitting)
    if found is not None:
        best = max(shape_of(t).constant for t in fitting)
        fixed = not shape_of(some[int(found.version)]).slots
        assert fixed or shape_of(some[int(found.version)]).constant == best
