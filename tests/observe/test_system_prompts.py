"""System prompts, read from what was recorded of a call."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ratchet.observe.capture import shorten
from ratchet.observe.system_prompts import system_prompts, was_cut


def text(content: str) -> dict[str, str]:
    return {"type": "text", "content": content}


def message(role: str, *contents: str) -> dict[str, Any]:
    return {"role": role, "parts": [text(content) for content in contents]}


def test_instructions_and_leading_messages_are_found_and_no_others() -> None:
    attributes = {
        "gen_ai.system_instructions": json.dumps([text("one"), {"type": "image"}, text("two")]),
        "gen_ai.input.messages": json.dumps(
            [
                message("system", "three"),
                message("user", "hello"),
                message("developer", "four", "five"),
                message("assistant", "hi"),
            ]
        ),
    }
    assert system_prompts(attributes) == ["one", "two", "three", "four", "five"]
    decoded = {key: json.loads(value) for key, value in attributes.items()}
    assert system_prompts(decoded) == system_prompts(attributes)


def test_the_prompt_of_a_completion_counts() -> None:
    messages = json.dumps([message("user", "Once upon a time")])
    assert system_prompts({"gen_ai.input.messages": messages}) == []
    completion = {
        "gen_ai.input.messages": messages,
        "gen_ai.operation.name": "text_completion",
    }
    assert system_prompts(completion) == ["Once upon a time"]


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "parts", "type", "content", "text"]), inner)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from(["gen_ai.system_instructions", "gen_ai.input.messages"]), JSON)
)
def test_anything_else_is_passed_over(attributes: dict[str, Any]) -> None:
    assert all(isinstance(one, str) for one in system_prompts(attributes))
    as_text = {key: json.dumps(value) for key, value in attributes.items()}
    assert all(isinstance(one, str) for one in system_prompts(as_text))
    for broken in ("", "{", "[" * 100_000, "null", 5, None):
        assert system_prompts({"gen_ai.input.messages": broken}) == []


def test_a_text_that_was_cut_says_so() -> None:
    assert was_cut(shorten("x" * 50, 20))
    assert not was_cut(shorten("x" * 50, 60))
    assert not was_cut("… [5 more characters] and on")
