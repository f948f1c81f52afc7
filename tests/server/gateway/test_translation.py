"""What the APIs have in common survives the way into another one, whole and streamed."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.observe.model_apis import ModelApi, chat, messages
from ratchet.server.gateway.sse import EventStreamParser
from ratchet.server.gateway.translating import AnswerTranslator
from ratchet.server.gateway.translation import (
    Translation,
    Untranslatable,
    json_bytes,
    translation_of,
)
from ratchet.server.gateway.translation.message_answers import MessageEvents
from tests.server.gateway.other_providers import (
    call,
    check_answer,
    check_completions,
    check_messages,
    completion,
    completion_chunks,
    message,
    message_events,
    text,
    use,
)

Json = dict[str, Any]

WORDS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12).filter(
    lambda said: said.strip() != ""
)
NAMES = st.from_regex(r"[a-z_]{1,10}", fullmatch=True)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)
ARGUMENTS = st.dictionaries(WORDS, VALUES, max_size=3)
URLS = st.sampled_from(["https://example.org/a.png", "data:image/png;base64,aWFt"])


HELLO: Json = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5}


def translated(client: str, path: str, upstream: str, request: Json) -> Translation:
    translate = translation_of(client, path, upstream)
    assert translate is not None
    return translate(request)


def to_messages(request: Json) -> Json:
    return translated("openai", "chat/completions", "anthropic", request).request


def to_chat(request: Json) -> Json:
    return translated("anthropic", "messages", "openai", request).request


# --- Requests -----------------------------------------------------------------------------------


@st.composite
def chat_turns(draw: Callable[..., Any]) -> list[Json]:
    """A conversation of chat completions that ends with the user or with tools."""
    turns: list[Json] = []
    if draw(st.booleans()):
        turns.append({"role": "system", "content": draw(WORDS)})
    numbers = iter(range(1000))
    for last in [False] * draw(st.integers(0, 3)) + [True]:
        parts = [text(draw(WORDS))]
        if draw(st.booleans()):
            parts.append({"type": "image_url", "image_url": {"url": draw(URLS)}})
        turns.append({"role": "user", "content": parts if len(parts) > 1 else parts[0]["text"]})
        calls = [
            call(f"call_{next(numbers)}", draw(NAMES), json.dumps(draw(ARGUMENTS)))
            for _ in range(draw(st.integers(0, 3)))
        ]
        if not calls and last:
            break
        said = draw(WORDS | st.none()) if calls else draw(WORDS)
        turn: Json = {"role": "assistant", "content": said}
        if calls:
            turn["tool_calls"] = calls
        turns.append(turn)
        turns += [
            {"role": "tool", "tool_call_id": called["id"], "content": draw(WORDS)}
            for called in calls
        ]
        if calls and not last:
            turns.append({"role": "assistant", "content": draw(WORDS)})
    return turns


TOOLS = st.lists(
    st.builds(
        lambda name, described, key: {
            "type": "function",
            "function": {
                "name": name,
                "description": described,
                "parameters": {"type": "object", "properties": {key: {"type": "string"}}},
            },
        },
        NAMES,
        WORDS,
        WORDS,
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda tool: tool["function"]["name"],
)


@st.composite
def chat_requests(draw: Callable[..., Any]) -> Json:
    """A request of chat completions of which all has an equivalent."""
    request: Json = {"model": "m", "messages": draw(chat_turns())}
    request["max_completion_tokens"] = draw(st.integers(1, 9999))
    if draw(st.booleans()):
        request["stop"] = draw(st.lists(WORDS, min_size=1, max_size=4))
    if draw(st.booleans()):
        request["reasoning_effort"] = draw(st.sampled_from(["none", "low", "high", "max"]))
    elif draw(st.booleans()):
        request["temperature"] = draw(st.floats(0, 0.99))
    if draw(st.booleans()):
        schema = {
            "type": "object",
            "properties": {draw(NAMES): {"type": "integer"}},
            "additionalProperties": False,
        }
        schema["required"] = list(schema["properties"])  # type: ignore[call-overload]
        form = {"name": "answer", "schema": schema, "strict": True}
        request["response_format"] = {"type": "json_schema", "json_schema": form}
    if draw(st.booleans()):
        tools = request["tools"] = draw(TOOLS)
        name = tools[0]["function"]["name"]
        named = {"type": "function", "function": {"name": name}}
        request["tool_choice"] = draw(st.sampled_from(["auto", "none", "required", named]))
        if request["tool_choice"] != "none" and draw(st.booleans()):
            request["parallel_tool_calls"] = False
    if draw(st.booleans()):
        request.update(stream=True, stream_options={"include_usage": True})
    return request


def plain(request: Json) -> Json:
    """A request as JSON has it, with the arguments of its calls decoded."""
    decoded: Json = json.loads(json_bytes(request))
    for turn in decoded["messages"]:
        for called in turn.get("tool_calls") or ():
            called["function"]["arguments"] = json.loads(called["function"]["arguments"])
    return decoded


@given(chat_requests())
def test_a_chat_request_survives_the_way_to_anthropic_and_back(request: Json) -> None:
    content = json_bytes(to_messages(request))
    for turn in request["messages"]:
        for called in turn.get("tool_calls") or ():
            assert called["function"]["arguments"].encode() in content  # byte for byte
    sent: Json = json.loads(content)
    check_messages(sent)
    again: Json = json.loads(json_bytes(to_chat(sent)))
    check_completions(again)
    back = plain(again)
    if "tools" not in request:  # those that were called before are declared
        back.pop("tools", None)
        assert back.pop("tool_choice", "none") == "none"
    assert back == plain(request)


def test_results_of_tools_come_before_what_was_said_between_them() -> None:
    turns = [
        {"role": "assistant", "content": None, "tool_calls": [call("a", "f", "{}")] * 2},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "user", "content": "Hurry"},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
        {"role": "user", "content": "Well?"},
    ]
    sent = to_messages({"model": "m", "messages": turns})
    assert [
        block.get("content", block.get("text")) for block in sent["messages"][1]["content"]
    ] == [*("1", "2", "Hurry", "Well?")]
    assert [tool["name"] for tool in sent["tools"]] == ["f"]
    assert sent["tool_choice"] == {"type": "none"}


def test_limits_of_a_schema_move_into_its_description() -> None:
    schema = {
        "type": "object",
        "properties": {
            "nights": {"type": "integer", "minimum": 1, "description": "How many"},
            "when": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
            "guests": {"type": "array", "items": {"$ref": "#/$defs/Guest"}, "minItems": 1},
        },
        "$defs": {"Guest": {"type": "object", "properties": {"age": {"type": "number"}}}},
    }
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    request = {**HELLO, "response_format": form}
    translation = translated("openai", "chat/completions", "anthropic", request)
    sent = translation.request["output_config"]["format"]["schema"]
    assert sent["additionalProperties"] is False
    assert sent["properties"]["nights"] == {
        "type": "integer",
        "description": 'How many\n\n{"minimum": 1}',
    }
    assert sent["properties"]["when"] == schema["properties"]["when"]  # type: ignore[index]
    assert sent["properties"]["guests"] == schema["properties"]["guests"]  # type: ignore[index]
    assert sent["$defs"]["Guest"]["additionalProperties"] is False
    assert translation.left_out == ["enforcement of minimum"]


def test_a_schema_of_objects_with_any_keys_is_refused() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "string"}}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    with pytest.raises(Untranslatable, match="objects with any keys"):
        to_messages({**HELLO, "response_format": form})


def test_thoughts_of_anthropics_return_to_it_and_others_do_not() -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    said = {"role": "user", "content": "Hi"}
    request = {"model": "m", "max_output_tokens": 5, "input": [thought, said]}
    translation = translated("openai", "responses", "anthropic", request)
    assert translation.left_out == ["reasoning of another model"]
    assert [turn["role"] for turn in translation.request["messages"]] == ["user"]


def test_thoughts_of_openai_compatible_servers_are_thinking_where_it_was_asked_for() -> None:
    answer = completion("Hi", reasoning_content="Hm.")
    thinking = {"thinking": {"type": "adaptive"}}
    translation = translated("anthropic", "messages", "openai", {**HELLO, **thinking})
    content = translation.answer(answer, 1)["content"]
    assert [block["type"] for block in content] == ["thinking", "text"]
    assert content[0]["thinking"] == "Hm."
    events = streamed(translation, completion_chunks(answer), [])
    deltas = [told["delta"]["type"] for told in events if told["type"] == "content_block_delta"]
    assert deltas == ["thinking_delta", "signature_delta", "text_delta"]
    back = {**HELLO, "messages": [*HELLO["messages"], {"role": "assistant", "content": content}]}
    back["messages"].append(HELLO["messages"][0])
    again = translated("anthropic", "messages", "openai", back)
    assert again.request["messages"][1] == {"role": "assistant", "content": "Hi"}
    assert again.left_out == ["thoughts of earlier turns"]
    without = translated("anthropic", "messages", "openai", HELLO)
    assert [block["type"] for block in without.answer(answer, 1)["content"]] == ["text"]


@given(chat_turns())
def test_a_request_of_responses_becomes_that_of_its_chat(turns: list[Json]) -> None:
    items: list[Json] = []
    for turn in turns:
        content = turn["content"]
        if turn["role"] == "tool":
            output = {"type": "function_call_output", "call_id": turn["tool_call_id"]}
            items.append({**output, "output": content})
            continue
        if content is not None:
            items.append({"role": turn["role"], "content": _response_parts(turn["role"], content)})
        for called in turn.get("tool_calls") or ():
            items.append({"type": "function_call", "call_id": called["id"], **called["function"]})
    said = {"model": "m", "max_output_tokens": 5, "input": items}
    of_response = translated("openai", "responses", "anthropic", said).request
    of_chat = to_messages({"model": "m", "max_tokens": 5, "messages": turns})
    assert json_bytes(of_response) == json_bytes(of_chat)


def _response_parts(role: str, content: Any) -> Any:
    if isinstance(content, str):
        kind = "output_text" if role == "assistant" else "input_text"
        return [{"type": kind, "text": content}]
    return [
        {"type": "input_text", "text": part["text"]}
        if part["type"] == "text"
        else {"type": "input_image", "image_url": part["image_url"]["url"], "detail": "auto"}
        for part in content
    ]


KEYS = """
type role content text tool_calls function arguments id name source data input output image_url url
file schema properties items anyOf required cache_control
"""
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS.split()),
            inner | st.sampled_from(["user", "assistant", "tool", "text", "tool_use", "document"]),
            max_size=5,
        )
    ),
    max_leaves=25,
)
TOP = """
messages input system instructions tools tool_choice stop stop_sequences temperature top_p text
response_format output_config output_format thinking reasoning reasoning_effort stream logprobs
stream_options max_tokens n include parallel_tool_calls
"""
FIELDS = st.dictionaries(st.sampled_from(TOP.split()), ANY, max_size=6)
ROUTES = [
    ("openai", "chat/completions", "anthropic"),
    ("openai", "responses", "anthropic"),
    ("anthropic", "messages", "openai"),
]


@pytest.mark.parametrize("route", ROUTES)
@given(request=FIELDS)
def test_a_request_of_any_shape_is_translated_or_refused(
    route: tuple[str, str, str], request: Json
) -> None:
    try:
        translation = translated(*route, {"model": "m", **request})
    except Untranslatable:
        return
    json_bytes(translation.request)


# --- Answers ------------------------------------------------------------------------------------

BLOCKS = st.lists(
    st.builds(text, WORDS)
    | st.builds(use, st.uuids().map("toolu_{0.hex}".format), NAMES, ARGUMENTS),
    min_size=1,
    max_size=4,
)
THOUGHT = st.builds(
    lambda thinking, signature: {
        "type": "thinking",
        "thinking": thinking,
        "signature": signature,
    },
    WORDS,
    WORDS,
)


@st.composite
def claude_answers(draw: Callable[..., Any]) -> Json:
    """An answer of Anthropic's."""
    blocks = draw(BLOCKS)
    if draw(st.booleans()):
        blocks.insert(0, draw(THOUGHT))
    calls = any(block["type"] == "tool_use" for block in blocks)
    reasons = ["tool_use"] if calls else ["end_turn", "max_tokens", "stop_sequence", "refusal"]
    return message(*blocks, stop_reason=draw(st.sampled_from(reasons)))


@st.composite
def gpt_answers(draw: Callable[..., Any]) -> Json:
    """An answer of OpenAI's."""
    calls = [
        call(f"call_{number}", draw(NAMES), json.dumps(draw(ARGUMENTS), ensure_ascii=draw(BOTH)))
        for number in range(draw(st.integers(0, 3)))
    ]
    said = draw(WORDS | st.none()) if calls else draw(WORDS)
    reasons = ["tool_calls", "stop"] if calls else ["stop", "length", "content_filter"]
    return completion(said, *calls, reason=draw(st.sampled_from(reasons)))


BOTH = st.booleans()


def chopped(content: bytes, cuts: Sequence[int]) -> list[bytes]:
    """Bytes in pieces."""
    places = sorted({0, len(content), *(cut % (len(content) + 1) for cut in cuts)})
    return [content[start:end] for start, end in itertools.pairwise(places)]


def streamed(translation: Translation, events: Sequence[Json], cuts: Sequence[int]) -> list[Json]:
    """What the client gets of a stream that arrives in pieces."""
    content = b"".join(b"data: %b\n\n" % json.dumps(told).encode() for told in events)
    translator = AnswerTranslator(translation, 1)
    translator.begin(200, [(b"content-type", b"text/event-stream")])
    got = b"".join(translator.feed(piece, False) for piece in chopped(content, cuts))
    got += translator.feed(b"", True)
    return [json.loads(data) for data in EventStreamParser().feed(got) if data != b"[DONE]"]


CUTS = st.lists(st.integers(0, 100_000), max_size=30)


def readable(told: Any) -> Any:
    """A chat message whose calls' arguments are decoded."""
    said = {key: value for key, value in told.items() if value}
    for called in said.get("tool_calls", ()):
        called["function"]["arguments"] = json.loads(called["function"]["arguments"])
        called.setdefault("type", "function")
    return said


def attributes(api: ModelApi, answer: Json) -> Json:
    """What a span says of an answer."""
    told = api.response_attributes(answer)
    return {**told, "gen_ai.output.messages": json.loads(told["gen_ai.output.messages"])}


@given(claude_answers(), CUTS)
def test_a_streamed_completion_is_the_whole_one(answer: Json, cuts: list[int]) -> None:
    translation = translated("openai", "chat/completions", "anthropic", HELLO)
    whole = translation.answer(answer, 1)
    assembly = chat.assembly()
    for told in streamed(translation, message_events(answer), cuts):
        assembly.add(told)
    assert assembly.complete
    got, expected = assembly.response()["choices"][0], whole["choices"][0]
    assert got["finish_reason"] == expected["finish_reason"]
    expected["message"].pop("thinking_blocks", None)  # no reader of chunks knows them
    assert readable(got["message"]) == readable(expected["message"])
    assert attributes(chat, assembly.response()) == attributes(chat, whole)


@pytest.mark.parametrize("path", ["chat/completions", "responses", "messages"])
@given(data=st.data())
def test_the_clients_library_has_types_for_answers_and_events(
    path: str, data: st.DataObject
) -> None:
    request = {"model": "m", "input": "Hi"} if path == "responses" else HELLO
    client, upstream = ("anthropic", "openai") if path == "messages" else ("openai", "anthropic")
    translation = translated(client, path, upstream, request)
    if path == "messages":
        answer = data.draw(gpt_answers())
        events = completion_chunks(answer)
    else:
        answer = data.draw(claude_answers())
        events = message_events(answer)
    check_answer(path, translation.answer(answer, 1), False)
    for told in streamed(translation, events, []):
        check_answer(path, told, True)


@given(claude_answers())
def test_a_completion_says_all_of_the_message(answer: Json) -> None:
    translation = translated("openai", "chat/completions", "anthropic", HELLO)
    whole = translation.answer(answer, 1)["choices"][0]["message"]
    said = [block["text"] for block in answer["content"] if block["type"] == "text"]
    assert (whole["content"] or "") == "".join(said)
    calls = [block for block in answer["content"] if block["type"] == "tool_use"]
    told = whole.get("tool_calls", [])
    assert [(called["id"], called["function"]["name"]) for called in told] == [
        (block["id"], block["name"]) for block in calls
    ]
    assert [json.loads(called["function"]["arguments"]) for called in told] == [
        block["input"] for block in calls
    ]


@given(claude_answers(), CUTS)
def test_a_streamed_response_is_the_whole_one(answer: Json, cuts: list[int]) -> None:
    request = {"model": "m", "input": "Hi"}
    translation = translated("openai", "responses", "anthropic", request)
    # In whole answers, text comes before the calls.
    answer["content"].sort(key=lambda block: ("thinking", "text", "tool_use").index(block["type"]))
    events = streamed(translation, message_events(answer), cuts)
    last = events[-1]["response"]
    assert _comparable(last) == _comparable(translation.answer(answer, 1))
    assert [told["sequence_number"] for told in events] == list(range(len(events)))
    added = [told for told in events if told["type"] == "response.output_item.added"]
    assert [told["output_index"] for told in added] == list(range(len(last["output"])))


def _comparable(response: Json) -> Json:
    for item in response["output"]:
        if item["type"] == "function_call":
            item["arguments"] = json.loads(item["arguments"])
    return response


@given(gpt_answers(), CUTS)
def test_a_streamed_message_is_the_whole_one(answer: Json, cuts: list[int]) -> None:
    translation = translated("anthropic", "messages", "openai", HELLO)
    whole = translation.answer(answer, 1)
    assembly = messages.assembly()
    for told in streamed(translation, completion_chunks(answer), cuts):
        assembly.add(told)
    assert assembly.complete
    assert attributes(messages, assembly.response()) == attributes(messages, whole)
    called = [block["input"] for block in whole["content"] if block["type"] == "tool_use"]
    given = answer["choices"][0]["message"].get("tool_calls", [])
    assert called == [json.loads(told["function"]["arguments"]) for told in given]


@given(st.data())
def test_calls_that_a_server_writes_in_turns_come_one_after_the_other(data: st.DataObject) -> None:
    given = [json.dumps(data.draw(ARGUMENTS)) for _ in range(data.draw(st.integers(1, 4)))]
    left = dict(enumerate(given))
    deltas: list[Json] = [
        {"index": index, "id": f"call_{index}", "function": {"name": "f", "arguments": ""}}
        for index in left
    ]
    while left:
        index = data.draw(st.sampled_from(sorted(left)))
        size = data.draw(st.integers(1, max(1, len(left[index]))))
        piece, left[index] = left[index][:size], left[index][size:]
        deltas.append({"index": index, "function": {"arguments": piece}})
        if not left[index]:
            del left[index]
    events = MessageEvents()
    told: list[Json] = []
    for delta in deltas:
        choice = {"index": 0, "delta": {"tool_calls": [delta]}, "finish_reason": None}
        told += events.add({"id": "c", "model": "m", "choices": [choice]})
    told += events.add({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    told += events.end()
    open_blocks: list[int] = []
    got: dict[int, str] = {}
    for event in told:
        if event["type"] == "content_block_start":
            open_blocks.append(event["index"])
        elif event["type"] == "content_block_delta":
            assert open_blocks == [event["index"]]
            more = event["delta"]["partial_json"]
            got[event["index"]] = got.get(event["index"], "") + more
        elif event["type"] == "content_block_stop":
            open_blocks.remove(event["index"])
    assert got == dict(enumerate(given))


EVENTS = st.lists(st.dictionaries(st.sampled_from(["type", "delta", "index", "choices"]), ANY))


@pytest.mark.parametrize("route", ROUTES)
@given(events=EVENTS)
def test_a_stream_of_any_shape_ends(route: tuple[str, str, str], events: list[Json]) -> None:
    request = {**HELLO, "input": "Hi"} if route[1] == "responses" else HELLO
    if route[1] == "responses":
        del request["messages"], request["max_tokens"]
    got = streamed(translated(*route, request), events, [])
    assert "error" in json.dumps(got[-1]) or got[-1]["type"] == "response.failed"


@pytest.mark.parametrize("route", ROUTES)
@given(body=ANY)
def test_an_answer_of_any_shape_is_translated_or_a_failure(
    route: tuple[str, str, str], body: Any
) -> None:
    request: Mapping[str, Any] = {"model": "m"}
    translator = AnswerTranslator(translated(*route, dict(request)), 1)
    translator.begin(200, [(b"content-type", b"application/json")])
    with contextlib.suppress(ValueError):
        json.loads(translator.feed(json_bytes(body), True))
