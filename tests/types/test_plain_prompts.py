"""Plain prompts: text in which braces mean nothing."""

import msgspec
import pytest

from ratchet.bind import registry
from ratchet.bind.prompt import prompt
from ratchet.bind.recognise import recognise, refill
from ratchet.learn.checks.prompt_text import prompt_fault
from ratchet.learn.demonstrations import Demonstration, with_section
from ratchet.learn.search.placeholders import mended
from ratchet.types import InputError, PromptTemplate, Resource, version_of

TEXT = 'Answer with JSON: {"city": "…", "rows": [{}]} {{never}} {% if %} $x {'


@pytest.fixture(autouse=True)
def _no_declarations():
    registry.forget()
    yield
    registry.forget()


def test_the_text_is_verbatim_whatever_its_braces():
    plain = PromptTemplate(TEXT, "plain")
    assert plain.placeholders == frozenset()
    assert plain.format() == plain.format(city="Bonn") == str(plain) == TEXT


def test_the_same_text_as_a_template_is_refused_and_the_hint_names_plain():
    with pytest.raises(InputError) as refused:
        PromptTemplate(TEXT)
    assert 'engine="plain"' in refused.value.hint


def test_an_unknown_engine_is_refused():
    with pytest.raises(InputError, match="none of 'f-string', 'jinja2' and 'plain'"):
        PromptTemplate("x", "mustache")  # type: ignore[arg-type]


def test_it_is_stored_and_read_as_the_same_version():
    plain: Resource = PromptTemplate(TEXT, "plain")
    again = msgspec.json.decode(msgspec.json.encode(plain), type=Resource)
    assert again == plain
    assert version_of(again) == version_of(plain) != version_of(PromptTemplate(TEXT[:5]))


def test_it_is_declared_by_engine():
    declared = prompt("extract", TEXT, engine="plain")
    assert str(declared) == declared.format(anything=1) == TEXT


def test_it_is_recognised_in_model_calls_and_replaced_verbatim():
    assert recognise(PromptTemplate(TEXT, "plain"), f"{TEXT}\n") == {}
    assert recognise(PromptTemplate(TEXT, "plain"), TEXT.replace("city", "town")) is None
    assert refill(PromptTemplate("{x}", "plain"), {}) == "{x}"


def test_an_edit_of_the_coach_is_taken_as_it_is():
    made, fault = mended('Give {"town": {question}}.', PromptTemplate(TEXT, "plain"))
    assert (made, fault) == (PromptTemplate('Give {"town": {question}}.', "plain"), "")


def test_braces_of_a_candidate_are_no_placeholders_and_another_engine_is_a_fault():
    plain = PromptTemplate(TEXT, "plain")
    assert prompt_fault(plain, PromptTemplate("{new}", "plain")) == ""
    assert "is written for f-string" in prompt_fault(plain, PromptTemplate("new"))


def test_examples_are_appended_verbatim():
    made = with_section(
        PromptTemplate(TEXT, "plain"), [Demonstration("t", "{{q}}", '{"city": "Bonn"}')]
    )
    assert 'Input: {{q}}\nOutput: {"city": "Bonn"}' in made.text
