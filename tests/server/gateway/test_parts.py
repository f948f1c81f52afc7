"""The parts of messages, in every dialect."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ratchet.observe.model_apis import chat, embeddings, messages, responses


def parts_of(dialect: Any, content: Any) -> Any:
    key = "input" if dialect is responses else "messages"
    request = {key: [{"role": "user", "content": content}]}
    return json.loads(dialect.request_attributes(request)["gen_ai.input.messages"])[0]["parts"]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
            {"type": "blob", "modality": "audio", "mime_type": "audio/wav", "size": 3},
        ),
        (
            {"type": "file", "file": {"file_id": "file_1"}},
            {"type": "file", "modality": "document", "file_id": "file_1"},
        ),
        (
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA"}},
            {"type": "blob", "modality": "document", "mime_type": "application/pdf", "size": 3},
        ),
        (
            {"type": "video_url", "video_url": {"url": "https://example.org/v"}},
            {"type": "uri", "modality": "video", "uri": "https://example.org/v"},
        ),
        ({"type": "refusal", "refusal": "No."}, {"type": "refusal", "content": "No."}),
        ({"type": "novelty", "secret": 1}, {"type": "novelty"}),
        ({}, {"type": "unknown"}),
    ],
)
def test_parts_of_a_chat(part: dict[str, Any], expected: dict[str, Any]) -> None:
    assert parts_of(chat, [part]) == [expected]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (
            {"type": "image", "source": {"type": "base64", "media_type": "a/b", "data": "AAAA"}},
            {"type": "blob", "modality": "image", "mime_type": "a/b", "size": 3},
        ),
        (
            {"type": "image", "source": {"type": "url", "url": "https://example.org/i"}},
            {"type": "uri", "modality": "image", "uri": "https://example.org/i"},
        ),
        (
            {"type": "document", "source": {"type": "text", "data": "words"}},
            {"type": "text", "content": "words"},
        ),
        (
            {"type": "document", "source": {"type": "file", "file_id": "f"}},
            {"type": "file", "modality": "document", "file_id": "f"},
        ),
        (
            {
                "type": "tool_result",
                "tool_use_id": "t",
                "is_error": True,
                "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            },
            {
                "type": "tool_call_response",
                "id": "t",
                "response": [
                    {"type": "text", "content": "a"},
                    {"type": "text", "content": "b"},
                ],
                "is_error": True,
            },
        ),
        (
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
            {
                "type": "server_tool_call",
                "id": "s",
                "name": "web_search",
                "server_tool_call": {"type": "web_search", "input": {"query": "q"}},
            },
        ),
        (
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "u"}]},
            {
                "type": "server_tool_call_response",
                "id": "s",
                "server_tool_call_response": {
                    "type": "web_search_tool_result",
                    "content": [{"url": "u"}],
                },
            },
        ),
    ],
)
def test_blocks_of_a_message(block: dict[str, Any], expected: dict[str, Any]) -> None:
    assert parts_of(messages, [block]) == [expected]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (
            {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
            {"type": "blob", "modality": "image", "mime_type": "image/png", "size": 3},
        ),
        (
            {"type": "input_image", "file_id": "f"},
            {"type": "file", "modality": "image", "file_id": "f"},
        ),
        (
            {"type": "input_file", "file_url": "https://example.org/f.pdf"},
            {"type": "uri", "modality": "document", "uri": "https://example.org/f.pdf"},
        ),
        ({"type": "input_text", "text": "x"}, {"type": "text", "content": "x"}),
    ],
)
def test_parts_of_a_response(part: dict[str, Any], expected: dict[str, Any]) -> None:
    assert parts_of(responses, [part]) == [expected]


def test_tools_of_the_provider_are_recorded_as_such() -> None:
    call = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    found = responses.response_attributes({"output": [call]})
    assert json.loads(found["gen_ai.output.messages"])[0]["parts"] == [
        {
            "type": "server_tool_call",
            "id": "ws_1",
            "name": "web_search_call",
            "server_tool_call": call,
        }
    ]


def test_reasoning_comes_before_what_was_said() -> None:
    assembly = chat.assembly()
    for delta in ({"reasoning_content": "Hm"}, {"reasoning_content": "."}, {"content": "Yes."}):
        assembly.add({"choices": [{"index": 0, "delta": delta}]})
    found = chat.response_attributes(assembly.response())
    assert json.loads(found["gen_ai.output.messages"])[0]["parts"] == [
        {"type": "reasoning", "content": "Hm."},
        {"type": "text", "content": "Yes."},
    ]


def test_the_dimensions_of_embeddings_in_base64_are_counted() -> None:
    import base64
    import struct

    vector = base64.b64encode(struct.pack("<5f", *range(5))).decode()
    found = embeddings.response_attributes({"data": [{"embedding": vector}]})
    assert found["gen_ai.embeddings.dimension.count"] == 5


def test_instructions_are_found_where_each_dialect_has_them() -> None:
    request = {
        "messages": [
            {"role": "system", "content": "a"},
            {"role": "user", "content": "x"},
            {"role": "developer", "content": [{"type": "text", "text": "b"}, {"type": "image"}]},
        ]
    }
    assert chat.prompt_texts(request) == (
        [(("messages", 0, "content"), "a"), (("messages", 2, "content", 0, "text"), "b")],
        [(("messages", 1, "content"), "x")],
    )
    asked = [{"role": "user", "content": "Sort this: hi"}, {"role": "user", "content": "And?"}]
    user = [(("messages", 0, "content"), "Sort this: hi")]
    for system, path in (
        ("a", ("system",)),
        ([{"type": "text", "text": "a"}], ("system", 0, "text")),
    ):
        texts = messages.prompt_texts({"system": system, "messages": asked})
        assert texts == ([(path, "a")], user)
        assert texts.leading == texts.system
    given = {
        "instructions": "a",
        "input": [{"role": "developer", "content": [{"type": "input_text", "text": "b"}]}],
    }
    assert responses.prompt_texts(given) == (
        [(("instructions",), "a"), (("input", 0, "content", 0, "text"), "b")],
        [],
    )
    # Without any, the first message of the user may hold them.
    assert responses.prompt_texts({"input": "Sort this mail: hi"}).leading == [
        (("input",), "Sort this mail: hi")
    ]
    for dialect in (chat, messages):
        assert dialect.prompt_texts({"messages": asked}).leading == user


def test_replaced_texts_leave_the_rest_shared_and_the_original_alone() -> None:
    request = {
        "model": "m",
        "tools": [{"name": "t"}],
        "messages": [{"role": "system", "content": "a"}, {"role": "user", "content": "x"}],
    }
    changed = chat.with_texts(request, {("messages", 0, "content"): "new"})
    assert changed["messages"][0] == {"role": "system", "content": "new"}
    assert request["messages"][0]["content"] == "a"
    assert changed["tools"] is request["tools"]
    assert changed["messages"][1] is request["messages"][1]
