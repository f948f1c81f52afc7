"""Templates are filled by name; generated ones reach nothing but what fills them."""

from __future__ import annotations

import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.types import InputError, PromptTemplate

SECRET = "a-secret-of-this-module"


class Document:
    def __init__(self) -> None:
        self.title = "Title"
        self.parts = {"a": ["first", "second"], "_b": "item"}

    def numbers(self) -> Any:
        yield 1


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("no placeholder", "no placeholder"),
        ("{{literal}} {q}", "{literal} Q"),
        ("{doc.title}/{doc.parts[a][1]}", "Title/second"),
        ("{doc.parts[_b]}", "item"),
        ("{n:05.1f}|{q!r:>5}", "003.1|  'Q'"),
        ("{q:{fill}>{width}}", "...Q"),
        ("{class} {self}", "C S"),
    ],
)
def test_an_f_string_template_is_filled(text: str, filled: str) -> None:
    fields = {"q": "Q", "doc": Document(), "n": 3.14, "fill": ".", "width": 4}
    assert PromptTemplate(text).format(**fields, **{"class": "C", "self": "S"}) == filled


def test_placeholders_are_named_also_inside_specifications() -> None:
    assert PromptTemplate("{a.b[c]:{d}} {{e}}").placeholders == {"a", "d"}
    assert PromptTemplate("{% for x in xs %}{{ x }}{{ y }}{% endfor %}", "jinja2").placeholders == {
        "xs",
        "y",
    }


@pytest.mark.parametrize(
    "text",
    ["{}", "{0}", "{a b}", "{a", "a}", "{a.}", "{a[}", "{a!z}", "{a:{b:{c}}}", "{a + 1}", "{a=}"],
)
def test_what_is_no_f_string_template_is_refused_at_once(text: str) -> None:
    with pytest.raises(InputError, match="not an f-string template"):
        PromptTemplate(text)


@pytest.mark.parametrize(
    "text",
    ["{{ a", "{% if %}", "{{ a | nofilter }}", "{{ " + "(" * 5000 + "a" + ")" * 5000 + " }}"],
)
def test_what_is_no_jinja2_template_is_refused_at_once(text: str) -> None:
    with pytest.raises(InputError, match="not a Jinja2 template"):
        PromptTemplate(text, "jinja2")


def test_only_text_and_known_engines_make_a_template() -> None:
    with pytest.raises(InputError, match="is not 'f-string', 'jinja2' or 'plain'"):
        PromptTemplate("a", "mustache")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="A prompt is text, not int"):
        PromptTemplate(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "engine"), [("{q} {policy}", "f-string"), ("{{ policy }}", "jinja2")]
)
def test_a_placeholder_that_nothing_fills_is_named(text: str, engine: Any) -> None:
    with pytest.raises(InputError, match=r"placeholder \{policy\} that nothing fills; .*\['q'\]"):
        PromptTemplate(text, engine).format(q="Q")


@pytest.mark.parametrize("text", ["{q.nothing}", "{q:d}", "{q[key]}", "{n:c}", "{n:,,}"])
def test_a_value_that_does_not_fit_its_placeholder_is_an_input_error(text: str) -> None:
    with pytest.raises(InputError, match="could not be filled"):
        PromptTemplate(text).format(q="Q", n=10**10)


@pytest.mark.parametrize(
    "text",
    [
        "{x.__class__}",
        "{x.__init__.__globals__[SECRET]}",
        "{x.title.__class__.__mro__}",
        "{x:{x.__class__}}",
        "{x._private}",
        "{x[0].__class__}",
        "{x.gi_frame.f_globals}",
        "{x.tb_frame}",
    ],
)
def test_an_f_string_template_may_not_reach_internals(text: str) -> None:
    with pytest.raises(InputError, match="may not reach the attribute"):
        PromptTemplate(text)


@pytest.mark.parametrize(
    "text",
    [
        "{{ x.__class__ }}",
        "{{ x['__class__'] }}",
        "{{ x | attr('__class__') }}",
        "{{ x.__init__.__globals__ }}",
        "{{ x.__init__['__globals__']['SECRET'] }}",
        "{{ '{0.__init__.__globals__}'.format(x) }}",
        "{{ '{x.__init__.__globals__}'.format_map({'x': x}) }}",
        "{{ ('{0.__class__}' | attr('format'))(x) }}",
        "{{ lipsum.__globals__ }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ self.__init__.__globals__ }}",
        "{{ x.numbers().gi_frame }}",
        "{% for n in range(10 ** 9) %}a{% endfor %}",
        "{% include '/etc/passwd' %}",
        "{{ xs.append(1) }}",
        "{{ 1 / 0 }}",
    ],
)
def test_a_jinja2_template_reaches_nothing_dangerous(text: str) -> None:
    xs: list[int] = []
    with pytest.raises(InputError, match=r"could not be filled|nothing fills") as raised:
        PromptTemplate(text, "jinja2").format(x=Document(), xs=xs)
    assert SECRET not in str(raised.value)
    assert xs == []


@given(st.text("{}x._[]:!'\" ag0", max_size=30))
def test_no_f_string_text_prints_internals(text: str) -> None:
    try:
        filled = PromptTemplate(text).format(x=Document(), a="A", g=types)
    except InputError:
        return
    assert "globals" not in filled
    assert "class '" not in filled


@given(st.text("{}%x._|()[]:'\" agin0", max_size=40))
def test_any_jinja2_text_ends_in_text_or_an_input_error(text: str) -> None:
    try:
        assert isinstance(PromptTemplate(text, "jinja2").format(x=1, a="A", n=2), str)
    except InputError:
        pass


def test_a_template_that_pads_without_bounds_is_refused() -> None:
    with pytest.raises(InputError, match="9999"):
        PromptTemplate("{x:9999999999}")
    assert PromptTemplate("{x:>12}").format(x="a") == "a".rjust(12)


@pytest.mark.parametrize(
    "text",
    ["{{ 'a' * 10**10 }}", "{{ 'a'|center(10000000000) }}", "{{ lipsum(n=10**9) }}{{ 9**9**9 }}"],
)
def test_a_template_that_would_be_huge_is_only_looked_at(text: str) -> None:
    assert PromptTemplate(text, "jinja2").placeholders == frozenset()


def test_what_a_jinja2_template_makes_itself_is_no_placeholder() -> None:
    text = (
        "{% set greeting = 'Hi' %}{% macro row(x) %}{{ x }}{% endmacro %}"
        "{% for item in items %}{{ loop.index }}{{ row(item) }}{{ range(3) }}{% endfor %}{{ name }}"
    )
    assert PromptTemplate(text, "jinja2").placeholders == {"items", "name"}
