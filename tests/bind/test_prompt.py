"""However code reads a prompt, the model gets the candidate's text to the byte."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import ratchet
from ratchet.bind import context
from ratchet.bind.context import Binding
from ratchet.bind.prompt import Prompt
from ratchet.learn.demonstrations import escaped
from ratchet.types import InputError, PromptTemplate
from ratchet.types.template import Engine

FENCE = 'Answer so:\n```json\n{"urgency": "high", "tags": []}\n```\n````\n{% raw %}{{ x }}\n````'
XML = "<rules>\n  <rule id='{1}'>100 % sure; %s %(name)s $price ${total}</rule>\n</rules>"
LONG = 'Be brief. {"a": {"b": [{}]}} }} {{ {# #} ' * 500

ENGINES: tuple[Engine, ...] = ("f-string", "plain", "jinja2")

READ: dict[str, Callable[[Prompt], str]] = {
    "format": lambda prompt: prompt.format(),
    "format with fields": lambda prompt: prompt.format(name="Ada", x=1),
    "str": str,
    "f-string": lambda prompt: f"{prompt}",
    "f-string, converted": lambda prompt: f"{prompt!s}",
    "str.format": lambda prompt: "{}".format(prompt),  # noqa: UP032 - a way to read it
    "plus": lambda prompt: (prompt + "|").removesuffix("|"),
    "plus, on the right": lambda prompt: ("|" + prompt).removeprefix("|"),
    "percent": lambda prompt: "%s" % prompt,  # noqa: UP031 - a way to read it
    "join": lambda prompt: "".join(map(str, [prompt])),
    "string.Template": lambda prompt: string.Template("$rules").substitute(rules=prompt),
    "a framework's template": lambda prompt: _filled(prompt),
}


def _filled(prompt: Prompt) -> str:
    """The prompt through a framework that fills templates itself, in the prompt's own syntax."""
    text, engine = prompt.template.text, prompt.template.engine
    if engine == "f-string":  # LangChain's `from_template` fills it like this
        return string.Formatter().vformat(text, (), {})
    if engine == "jinja2":
        from jinja2.sandbox import SandboxedEnvironment

        return SandboxedEnvironment(keep_trailing_newline=True).from_string(text).render()
    return text


texts = st.text(
    st.sampled_from("ab {}%#$<>'\"`\\\n") | st.characters(codec="utf-8", exclude_characters="\r"),
    max_size=80,
)


@pytest.fixture(scope="module")
def prompts() -> dict[Engine, Prompt]:
    return {engine: Prompt(engine, PromptTemplate("Be brief.", engine)) for engine in ENGINES}


@pytest.mark.parametrize("read", READ.values(), ids=READ.keys())
@pytest.mark.parametrize("engine", ENGINES)
@given(text=texts)
@example(text=FENCE)
@example(text=XML)
@example(text=LONG)
@example(text="{{ name }} {{name}} {name} {} {% if x %}")
def test_every_way_to_read_a_prompt_yields_a_candidate_s_text_to_the_byte(
    prompts: dict[Engine, Prompt], engine: Engine, read: Callable[[Prompt], str], text: str
) -> None:
    prompt = prompts[engine]
    template = PromptTemplate(escaped(text, prompt.default), engine)
    with context.bound(Binding(resources={engine: template})):
        assert read(prompt) == text


SLOTS = {
    "f-string": ('Be {tone}. {{"a": 1}} {question}', "{question}, {tone}"),
    "jinja2": ("Be {{ tone }}. {% if question %}{{ question }}{% endif %}", "{question}, {tone}"),
}


@pytest.mark.parametrize("read", [str, lambda p: f"{p}", lambda p: p + "!", lambda p: "!" + p])
@pytest.mark.parametrize("engine", SLOTS)
def test_open_slots_are_named_wherever_nothing_fills_them(
    read: Callable[[Any], str], engine: Engine
) -> None:
    text, slots = SLOTS[engine]
    prompt = Prompt("system", PromptTemplate(text, engine))
    with pytest.raises(InputError) as refused:
        read(prompt)
    assert refused.value.message == f"The prompt 'system' has unfilled slots: {slots}."
    assert ".format(question=…, tone=…)" in (refused.value.hint or "")


def test_a_percent_sign_fills_no_prompt() -> None:
    prompt = Prompt("system", PromptTemplate("Be %s."))
    with pytest.raises(InputError, match="with %"):
        prompt % "brief"


def test_a_released_text_that_does_not_fit_gives_way_to_the_source_s() -> None:
    prompt = Prompt("system", PromptTemplate("Be brief."))
    context.serve({"system": PromptTemplate("Be {tone}.")})
    try:
        with pytest.warns(RuntimeWarning, match="does not fit"):
            assert str(prompt) == "Be brief."
    finally:
        context.serve({})


def test_a_declared_prompt_is_read_like_any_other() -> None:
    prompt = ratchet.prompt("braces", 'Answer as {{"urgency": …}}.')
    assert f"{prompt}" == 'Answer as {"urgency": …}.'
    assert prompt.template.text == 'Answer as {{"urgency": …}}.'
