"""Requests and answers that the npm package sends as the provider's API has them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ratchet.observe.dialects import normalise

API = "ratchet.model_api"


def test_a_request_and_its_answer_become_messages_in_their_place() -> None:
    request = {
        "model": "claude",
        "max_tokens": 10,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "Hi"}],
    }
    answer = {"content": [{"type": "text", "text": "Hello"}], "stop_reason": "end_turn"}
    model = normalise(
        "chat claude",
        {
            API: "anthropic/messages",
            "gen_ai.usage.input_tokens": 7,
            "ratchet.input": json.dumps(request),
            "ratchet.output": json.dumps(answer),
        },
    )
    assert json.loads(model["gen_ai.input.messages"])[0]["parts"][0]["content"] == "Hi"
    assert json.loads(model["gen_ai.output.messages"])[0]["parts"][0]["content"] == "Hello"
    assert json.loads(model["gen_ai.system_instructions"])[0]["content"] == "Be brief."
    assert (model["gen_ai.request.max_tokens"], model["gen_ai.usage.input_tokens"]) == (10, 7)
    assert not {"ratchet.input", "ratchet.output"} & model.keys()


@pytest.mark.parametrize(
    ("api", "text"),
    [("openai/unknown", "{}"), ("openai/responses", "masked"), (7, "[1]"), ("openai/chat", "")],
)
def test_what_is_no_request_stays_as_it_is(api: Any, text: str) -> None:
    attributes = {API: api, "ratchet.input": text, "gen_ai.operation.name": "chat"}
    assert normalise("chat", attributes) == attributes


def test_base64_that_was_left_out_has_its_size() -> None:
    url = "data:image/png;base64,… [4000 more characters]"
    content = [{"type": "image_url", "image_url": {"url": url}}]
    request = {"messages": [{"role": "user", "content": content}]}
    model = normalise(
        "chat", {API: "openai/chat/completions", "ratchet.input": json.dumps(request)}
    )
    (message,) = json.loads(model["gen_ai.input.messages"])
    assert message["parts"] == [
        {"type": "blob", "modality": "image", "mime_type": "image/png", "size": 3000}
    ]
