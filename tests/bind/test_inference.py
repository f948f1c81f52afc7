"""Ranges of bare defaults, and templates in their two forms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ratchet
from ratchet.bind import declarations, forget
from ratchet.types import Bool, Choice, Float, InputError, Int, Params

FINITE = st.floats(min_value=1.0, max_value=1e300, exclude_min=True)


@given(
    st.one_of(
        st.booleans(), st.integers(1, 10**12), st.floats(0, 1), FINITE, st.just(0.0), st.just(1.0)
    )
)
def test_an_inferred_range_holds_its_default(value: float) -> None:
    forget()
    knobs = ratchet.params("knobs", x=value)
    resource = declarations()["knobs"].resource
    assert isinstance(resource, Params)
    assert resource.values == {"x": value}
    assert type(knobs.x) is type(value)


def test_ranges_are_inferred_as_documented() -> None:
    forget()
    choice = ratchet.Choice("a", ("a", "b"))
    ratchet.params("knobs", k=5, on=True, share=0.3, size=2.0, kind=choice)
    resource = declarations()["knobs"].resource
    assert isinstance(resource, Params)
    assert resource.space == {
        "k": Int(5, 1, 20, log=True),
        "on": Bool(True),
        "share": Float(0.3, 0.0, 1.0),
        "size": Float(2.0, 0.5, 8.0, log=True),
        "kind": Choice("a", ("a", "b")),
    }


@pytest.mark.parametrize("value", [0, -1, -0.5, float("nan"), float("inf"), "text", None, [1]])
def test_a_default_whose_range_cannot_be_guessed_is_refused_by_name(value: object) -> None:
    with pytest.raises(InputError, match=r"knobs\.x"):
        ratchet.params("knobs", x=value)


def test_an_f_string_prompt_is_filled_and_ignores_other_fields() -> None:
    system = ratchet.prompt("plain", "{{literal}} {policy!r:>8} {item.real}")
    assert system.format(policy="be", item=3, unused=1) == "{literal}     'be' 3"


def test_a_jinja_prompt_is_filled() -> None:
    system = ratchet.prompt(
        "jinja", "{% for d in docs %}{{ d }};{% endfor %}{braces}\n", engine="jinja2"
    )
    assert system.format(docs=["a", "b"]) == "a;b;{braces}\n"
    with pytest.raises(InputError, match="docs"):
        system.format()


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        ("{", "f-string"),
        ("{0}", "f-string"),
        ("{}", "f-string"),
        ("{% if %}", "jinja2"),
        ("a", "x"),
    ],
)
def test_a_malformed_template_is_refused_where_it_is_declared(text: str, engine: str) -> None:
    with pytest.raises(InputError):
        ratchet.prompt("broken", text, engine=engine)  # type: ignore[arg-type]
