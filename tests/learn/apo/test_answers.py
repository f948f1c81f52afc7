"""Answers of a coach: the prompt is found in them, mended, or refused with a reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.learn.apo.answers import extracted, language, language_changed, read_answer
from ratchet.learn.apo.placeholders import mended
from ratchet.learn.length import longest
from ratchet.types import PromptTemplate

PARENT = PromptTemplate("You book rooms for {office}.\n\nRequest: {request}")
PLAIN = PromptTemplate("You are a booking assistant. Answer the question of the user.")
JINJA = PromptTemplate("You book rooms for {{ office }}.", "jinja2")
NEW = "You book the rooms of {office}, with care.\n\nRequest: {request}"


@pytest.mark.parametrize(
    "answer",
    [
        NEW,
        f"```\n{NEW}\n```",
        f"````text\n{NEW}\n````",
        f"Sure! Here is the improved prompt:\n\n```text\n{NEW}\n```\n\nLet me know what you think.",
        f"Here's the revised prompt:\n\n{NEW}",
        f"**Improved prompt:**\n\n{NEW}",
        f"<new_prompt>\n{NEW}\n</new_prompt>",
        f"I thought about it.\n<prompt>{NEW}</prompt>",
        f'"{NEW}"',
        f"{NEW}\n\nThese changes make the prompt clearer.",
        f"I looked at what failed.\n\n~~~\n{NEW}\n~~~",
        f"```\n{NEW}",
    ],
)
def test_the_prompt_is_found_in_what_stands_around_it(answer: str) -> None:
    read = read_answer(answer, PARENT, PARENT)
    assert read.template is not None
    assert read.template.text == NEW


def test_a_fence_within_the_prompt_stays() -> None:
    inner = f"{NEW}\n\n```json\n{{{{}}}}\n```\n\nNothing else."
    assert extracted(f"````text\n{inner}\n````", PARENT) == inner
    own = PromptTemplate("Answer so:\n```\nROOM\n```\n{request}")
    assert extracted("Answer so:\n```\nROOM ID\n```\n{request}", own).startswith("Answer so:")


@pytest.mark.parametrize(
    ("answer", "reason", "final"),
    [
        ("", "empty", False),
        ("   \n", "empty", False),
        ("```\n\n```", "emptied", False),
        ("I'm sorry, but I can't help with that.", "refused", True),
        ("I cannot assist with rewriting this prompt.", "refused", True),
        ("As an AI language model, I can't.", "refused", True),
        (PARENT.text, "unchanged", True),
        (f"```\n{PARENT.text}\n```", "unchanged", True),
        (f"{NEW} For {{customer}}.", "{customer}", False),
        (NEW + " Be careful." * 400, "characters long", False),
        (
            "Du buchst die Räume für {office} und bist dabei sehr sorgfältig. {request}",
            "German",
            False,
        ),
        ("Бронируйте комнаты для {office} аккуратно. {request}", "Cyrillic", False),
    ],
)
def test_what_cannot_be_tried_is_told(answer: str, reason: str, final: bool) -> None:
    read = read_answer(answer, PARENT, PARENT)
    assert read.template is None
    assert reason in read.problem
    assert read.final is final


@pytest.mark.parametrize(
    ("edit", "parent", "text"),
    [
        # Braces of an example, as models leave them.
        (
            'Answer as {"room": "A1"} for {office}. {request}',
            PARENT,
            'Answer as {{"room": "A1"}} for {office}. {request}',
        ),
        # Placeholders in other template languages, or in another spelling.
        ("For {{office}}: {{request}}", PARENT, "For {office}: {request}"),
        ("For ${office}: {request}", PARENT, "For {office}: {request}"),
        ("For { office }: {request}", PARENT, "For {office}: {request}"),
        ("For {Office}: {REQUEST}", PARENT, "For {office}: {request}"),
        ("For <office>: [request]", PARENT, "For {office}: {request}"),
        ("For %(office)s: $request", PARENT, "For {office}: {request}"),
        ("For {office}.", JINJA, "For {{ office }}."),
        ("For {{office}}.", JINJA, "For {{office}}."),
        # The line that held it, at the end of the parent.
        (
            "You book rooms for {office}, never twice.",
            PARENT,
            "You book rooms for {office}, never twice.\n\nRequest: {request}",
        ),
        # Nothing to fill: any brace is meant as it stands.
        ('Answer as {"id": 1}.', PLAIN, 'Answer as {{"id": 1}}.'),
    ],
)
def test_placeholders_that_were_broken_in_a_plain_way_are_mended(
    edit: str, parent: PromptTemplate, text: str
) -> None:
    template, problem = mended(edit, parent)
    assert problem == ""
    assert template is not None
    assert template.text == text
    assert template.placeholders == parent.placeholders


ONE_LINE = PromptTemplate("You are a booking assistant for {office}. Help with rooms.")


@pytest.mark.parametrize(
    "intro",
    [
        "You are a booking assistant for the company. Help with rooms.",
        "You are a booking assistant for {location}. Help with rooms.",
        "You are a booking assistant for . Help with rooms.",
        "You are a booking assistant. Help with rooms.",
    ],
)
def test_a_placeholder_comes_back_where_it_stood(intro: str) -> None:
    template, problem = mended(f"{intro}\n- Answer with the id only.", ONE_LINE)
    assert problem == ""
    assert template is not None
    assert template.text == f"{ONE_LINE.text}\n- Answer with the id only."


@pytest.mark.parametrize("name", ["{{ place }}", "the company"])
def test_jinja_placeholders_come_back_where_they_stood(name: str) -> None:
    template, _ = mended(f"You book rooms for {name}.\nBe kind.", JINJA)
    assert template is not None
    assert template.text == "You book rooms for {{ office }}.\nBe kind."


def test_a_line_that_was_left_out_of_the_middle_comes_back_there() -> None:
    parent = PromptTemplate("You book rooms.\nThey are in {office}.\nBe brief.\n{request}")
    template, _ = mended("You book rooms.\nBe brief, and exact.\n{request}", parent)
    assert template is not None
    assert template.text == (
        "You book rooms.\nThey are in {office}.\nBe brief, and exact.\n{request}"
    )


def test_no_line_comes_back_beside_its_own_rewording() -> None:
    parent = PromptTemplate("You are a kind assistant who books rooms for {office}.\nBe brief.")
    edit = "As an assistant you kindly book rooms for whoever asks, a kind one.\nBe brief."
    template, problem = mended(edit, parent)
    assert template is None or template.text.count("assistant") == 1
    assert template is not None or "lost" in problem


def test_a_placeholder_from_the_middle_of_a_prompt_is_not_put_anywhere() -> None:
    parent = PromptTemplate(
        "You book rooms.\nThey are in {office}.\nBe brief.\nBe kind.\n{request}"
    )
    template, problem = mended("You book rooms, be kind.\n{request}", parent)
    assert template is None
    assert problem == "It lost the placeholder {office}, which must stay in it exactly once."


def test_formats_of_placeholders_stay() -> None:
    parent = PromptTemplate("It costs {price:.2f} for {user.name!r}.")
    template, _ = mended('{"x": 1} costs {price:.2f}, {user.name!r}.', parent)
    assert template is not None
    assert template.text == '{{"x": 1}} costs {price:.2f}, {user.name!r}.'


def test_an_unsafe_template_is_refused() -> None:
    read = read_answer("Now {office.__class__} and {request} as well.", PARENT, PARENT)
    assert read.template is None or "__class__" not in read.template.placeholders
    if read.template is not None:  # its braces were doubled: it prints what it says
        assert "{{office.__class__}}" in read.template.text


@given(st.text(max_size=300))
def test_whatever_an_answer_holds_the_template_fills_from_the_same_fields(text: str) -> None:
    read = read_answer(text, PARENT, PARENT)
    assert (read.template is None) == bool(read.problem)
    if read.template is not None:
        assert read.template.placeholders == PARENT.placeholders
        read.template.format(office="x", request="y")


def test_a_short_prompt_may_grow_to_a_fixed_length_and_a_long_one_in_proportion() -> None:
    assert longest("Be brief.") == longest("x" * 1_000) == 4_000
    assert longest("x" * 15_000) == 60_000
    assert longest("x" * 15_000, 2.0) == 30_000


@pytest.mark.parametrize(
    "answer",
    ["NO CHANGE", "no change.", "**NO CHANGE** They have another cause.", "No changes are needed",
     "No change: the prompt says it all."],
)  # fmt: skip
def test_an_answer_may_be_that_nothing_should_change(answer: str) -> None:
    read = read_answer(answer, PARENT, PARENT)
    assert read.declined
    assert read.final
    assert read.template is None


@pytest.mark.parametrize(
    "answer",
    ["No changes may be made to bookings of {office} for {request}.", "Nothing helps.",
     "NO CHANGE but this:\n````text\nBook for {office}: {request}, one room.\n````"],
)  # fmt: skip
def test_what_only_begins_like_that_is_read_as_a_prompt(answer: str) -> None:
    assert not read_answer(answer, PARENT, PARENT).declined


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("You are an assistant that answers the questions of the user.", "English"),
        ("Du bist ein Assistent und beantwortest die Fragen der Nutzer.", "German"),
        ("Vous êtes un assistant qui aide à réserver une salle pour les gens.", "French"),
        ("Eres un asistente que ayuda a reservar una sala en la oficina.", "Spanish"),
        ("会議室を予約するアシスタントです。", "Japanese"),
        ("Ты помощник", "Cyrillic"),
        ("OK", None),
        ("", None),
        ("12 + 4 = 16", None),
    ],
)
def test_languages_are_told_apart(text: str, name: str | None) -> None:
    assert language(text) == name


def test_a_language_that_nobody_can_tell_is_not_a_changed_one() -> None:
    assert language_changed("Be brief.", "Be brief, and name the room alone.") == ""
    assert language_changed(PLAIN.text, "ROOM-ID. ROOM-ID. none") == ""
    assert language_changed("Be brief.", "Кратко отвечай") == "Cyrillic"
