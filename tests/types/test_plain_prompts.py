"""Plain prompts: text in which braces mean nothing."""

import msgspec
import pytest

from ratchet.bind import registry
from ratchet.bind.recognise import recognise, refill
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


def test_it_is_stored_and_read_as_the_same_version():
    plain: Resource = PromptTemplate(TEXT, "plain")
    again = msgspec.json.decode(msgspec.json.encode(plain), type=Resource)
    assert again == plain
    assert version_of(again) == version_of(plain) != version_of(PromptTemplate(TEXT[:5]))


def test_it_is_recognised_in_model_calls_and_replaced_verbatim():
    assert recognise(PromptTemplate(TEXT, "plain"), f"{TEXT}\n") == {}
    assert recognise(PromptTemplate(TEXT, "plain"), TEXT.replace("city", "town")) is None
    assert refill(PromptTemplate("{x}", "plain"), {}) == "{x}"


def test_an_edit_of_the_coach_is_taken_as_it_is():
    made, fault = mended('Give {"town": {question}}.', PromptTemplate(TEXT, "plain"))
    assert (made, fault) == (PromptTemplate('Give {"town": {question}}.', "plain"), "")


def test_examples_are_appended_verbatim():
    made = with_section(
        PromptTemplate(TEXT, "plain"), [Demonstration("t", "{{q}}", '{"city": "Bonn"}')]
    )
    assert 'Input: {{q}}\nOutput: {"city": "Bonn"}' in made.text
