"""Streamed answers are recorded as answers that were not streamed, part for part."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ratchet.observe.model_apis import ModelApi, chat, completions, messages, responses

Answer = dict[str, Any]

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12)
WORDS = st.text("abcdefghij", min_size=1, max_size=8)
INPUTS = st.dictionaries(WORDS, st.integers(0, 9) | TEXTS | st.lists(TEXTS, max_size=2), max_size=2)


def streamed(api: ModelApi, events: Iterable[Answer]) -> Answer:
    assembly = api.assembly()
    for event in events:
        assembly.add(json.loads(json.dumps(event)))
    return recorded(api, assembly.response())


def recorded(api: ModelApi, answer: Answer) -> Answer:
    attributes = api.response_attributes(answer)
    if "gen_ai.output.messages" in attributes:
        attributes["gen_ai.output.messages"] = json.loads(attributes["gen_ai.output.messages"])
    return attributes


def pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def of(type: str, **fields: Any) -> st.SearchStrategy[Answer]:
    """A part of that type, with fields that are given or drawn."""
    given = {"type": type, **fields}
    return st.fixed_dictionaries(
        {
            key: value if isinstance(value, st.SearchStrategy) else st.just(value)
            for key, value in given.items()
        }
    )


def some(part: st.SearchStrategy[Answer], most: int = 3) -> st.SearchStrategy[list[Answer]]:
    return st.lists(part, min_size=1, max_size=most)


# Chat completions


def chat_answers() -> st.SearchStrategy[Answer]:
    """Messages with every part that OpenAI's API, Mistral's or OpenRouter's documents."""
    text = of("text", text=TEXTS)
    thought = of("thinking", thinking=st.tuples(text).map(list))
    summary = of("reasoning", summary=st.tuples(text).map(list))  # Databricks
    reference = of("reference", reference_ids=[1, 2])
    mistral = st.tuples(thought | summary, text, reference).map(list)
    detail = st.one_of(
        of("reasoning.text", text=TEXTS),
        of("reasoning.summary", summary=TEXTS),
        of("reasoning.encrypted", data=WORDS),
    )
    details = some(detail).map(
        lambda found: [{**each, "index": index} for index, each in enumerate(found)]
    )

    def called(kind: str, field: str, said: Any) -> st.SearchStrategy[Answer]:
        return of(kind, **{kind: st.fixed_dictionaries({"name": WORDS, field: said})})

    call = st.one_of(
        called("function", "arguments", INPUTS.map(json.dumps)),
        called("function", "arguments", INPUTS),
        called("custom", "input", TEXTS),
    )
    calls = some(call).map(
        lambda found: [{"id": f"call_{number}", **each} for number, each in enumerate(found)]
    )
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    citation = {"type": "url_citation", "url_citation": {"url": "https://example.org"}}
    message = st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": st.none() | st.just("") | TEXTS | mistral},
        optional={
            "refusal": TEXTS,
            "reasoning_content": TEXTS,
            "reasoning": TEXTS,
            "reasoning_details": details,
            "annotations": st.just([citation]),
            "images": st.just([image]),
            "tool_calls": calls,
            "function_call": st.fixed_dictionaries(
                {"name": WORDS, "arguments": INPUTS.map(json.dumps)}
            ),
            "audio": st.fixed_dictionaries(
                {"id": st.just("a"), "data": WORDS, "transcript": TEXTS}
            ),
        },
    )
    return st.builds(
        lambda said: {
            "id": "chatcmpl-1",
            "model": "m",
            "choices": [{"index": 0, "message": said, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
        },
        message,
    )


def chat_deltas(message: Answer, size: int) -> Iterator[Answer]:
    yield {"role": "assistant", "content": ""}
    for key in ("reasoning_content", "reasoning", "refusal"):
        for piece in pieces(message.get(key, ""), size):
            yield {key: piece}
    for detail in message.get("reasoning_details", ()):
        field = detail["type"].removeprefix("reasoning.").replace("encrypted", "data")
        step = len(detail[field]) if field == "data" else size
        for piece in pieces(detail[field], step):
            yield {"reasoning_details": [{**detail, field: piece}]}
    content = message["content"]
    for piece in pieces(content, size) if isinstance(content, str) else content or ():
        for delta in content_pieces(piece, size):
            yield {"content": delta}
    for key in ("annotations", "images"):
        if key in message:
            yield {key: message[key]}
    for index, call in enumerate(message.get("tool_calls", ())):
        yield from call_deltas(call, index, size)
    if old := message.get("function_call"):
        yield {"function_call": {"name": old["name"], "arguments": ""}}
        for piece in pieces(old["arguments"], size):
            yield {"function_call": {"arguments": piece}}
    for key in ("data", "transcript"):
        for piece in pieces(message.get("audio", {}).get(key, ""), size):
            yield {"audio": {"id": "a", key: piece}}


def content_pieces(part: Any, size: int) -> Iterator[Any]:
    if isinstance(part, str):
        yield part
    elif part["type"] == "text":  # Mistral's reasoning models go on in plain texts
        yield from pieces(part["text"], size)
    elif part["type"] in ("thinking", "reasoning"):
        field = "thinking" if part["type"] == "thinking" else "summary"
        for piece in pieces(part[field][0]["text"], size):
            yield [{"type": part["type"], field: [{"type": "text", "text": piece}]}]
    else:
        yield [part]


def call_deltas(call: Answer, index: int, size: int) -> Iterator[Answer]:
    kind = call["type"]
    field = "input" if kind == "custom" else "arguments"
    said = call[kind][field]
    if not isinstance(said, str):
        yield {"tool_calls": [{"index": index, **call}]}
        return
    head = {"id": call["id"], "type": kind, kind: {"name": call[kind]["name"], field: ""}}
    yield {"tool_calls": [{"index": index, **head}]}
    for piece in pieces(said, size):
        yield {"tool_calls": [{"index": index, kind: {field: piece}}]}


@given(answer=chat_answers(), size=st.integers(1, 9))
def test_a_streamed_chat_equals_one_that_was_not_streamed(answer: Answer, size: int) -> None:
    head = {"id": answer["id"], "model": answer["model"]}
    (choice,) = answer["choices"]
    events = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in chat_deltas(choice["message"], size)
    ]
    events.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    events.append({**head, "choices": [], "usage": answer["usage"]})
    assert streamed(chat, events) == recorded(chat, answer)


@given(text=TEXTS, size=st.integers(1, 9))
def test_a_streamed_completion_equals_one_that_was_not_streamed(text: str, size: int) -> None:
    head = {"id": "cmpl-1", "model": "m"}
    usage = {"prompt_tokens": 9, "completion_tokens": 4}
    answer = {**head, "choices": [{"index": 0, "text": text, "finish_reason": "stop"}]}
    events: list[Answer] = [
        {**head, "choices": [{"index": 0, "text": piece}]} for piece in pieces(text, size)
    ]
    events.append({**head, "choices": [{"index": 0, "text": "", "finish_reason": "stop"}]})
    events.append({**head, "choices": [], "usage": usage})
    assert streamed(completions, events) == recorded(completions, {**answer, "usage": usage})


# Tool calls


def tool(name: str | None = None, arguments: Any = None, **more: Any) -> Answer:
    said = {"name": name, "arguments": arguments}
    return {**more, "function": {key: value for key, value in said.items() if value is not None}}


WEATHER, CLOCK = ("weather", '{"city":"Oslo"}'), ("clock", '{"zone":"CET"}')


@pytest.mark.parametrize(
    "deltas",
    [
        # No index, or null.
        [tool(*WEATHER, id="a"), tool(*CLOCK, id="b")],
        [tool(*WEATHER, id="a", index=None), tool(*CLOCK, id="b", index=None)],
        # The same index for both, in whole calls or in pieces.
        [tool(*WEATHER, id="a", index=0), tool(*CLOCK, id="b", index=0)],
        [
            tool("weather", "", id="a", index=0),
            tool(None, WEATHER[1][:5], index=0),
            tool(None, WEATHER[1][5:], index=0, id=""),
            tool("clock", "", id="b", index=0),
            tool(None, CLOCK[1], index=0),
        ],
        # Neither, in pieces.
        [
            tool("weather", "", id="a"),
            tool(None, WEATHER[1]),
            tool("clock", CLOCK[1][:4], id="b"),
            tool(None, CLOCK[1][4:]),
        ],
        # Id and name in each delta.
        [
            tool("weather", WEATHER[1][:5], id="a", index=0),
            tool("weather", WEATHER[1][5:], id="a", index=0),
            tool("clock", CLOCK[1][:5], id="b", index=0),
            tool("clock", CLOCK[1][5:], id="b", index=0),
        ],
        # Pieces of both calls by turns.
        [
            tool("weather", "", id="a", index=0),
            tool("clock", "", id="b", index=1),
            tool(None, WEATHER[1][:5], index=0),
            tool(None, CLOCK[1], index=1),
            tool(None, WEATHER[1][5:], index=0),
        ],
        [
            tool("weather", "", id="a", index=None),
            tool("clock", "", id="b", index=None),
            tool(None, WEATHER[1], id="a"),
            tool(None, CLOCK[1], id="b"),
        ],
        # The newest call first.
        [tool(*CLOCK, id="b", index=1), tool(*WEATHER, id="a", index=0)],
        # An id that each delta invents.
        [
            tool("weather", "", id="a", index=0),
            tool(None, WEATHER[1], id="x", index=0),
            tool("clock", "", id="b", index=0),
            tool(None, CLOCK[1], id="y", index=0),
        ],
        # An id that comes late.
        [
            tool("weather", "", index=0),
            tool(None, WEATHER[1], id="a", index=0),
            tool("clock", "", index=1),
            tool(None, CLOCK[1], id="b", index=1),
        ],
    ],
)
def test_tool_calls_are_told_apart_by_id_then_index_then_arrival(deltas: list[Answer]) -> None:
    (message,) = streamed(chat, [_chunk(delta) for delta in deltas])["gen_ai.output.messages"]
    assert message["parts"] == [
        {"type": "tool_call", "id": "a", "name": "weather", "arguments": {"city": "Oslo"}},
        {"type": "tool_call", "id": "b", "name": "clock", "arguments": {"zone": "CET"}},
    ]


@pytest.mark.parametrize("index", [{}, {"index": None}, {"index": 0}, {"index": 0, "id": "same"}])
def test_tool_calls_without_ids_of_their_own_are_told_apart_by_name_and_by_whole_arguments(
    index: Answer,
) -> None:
    deltas = [
        tool("weather", '{"city":', **index),
        tool("weather", '"Oslo"}', **index),
        tool("weather", '{"city":"Rome"}', **index),
        tool(*CLOCK, **index),
    ]
    (message,) = streamed(chat, [_chunk(delta) for delta in deltas])["gen_ai.output.messages"]
    assert [(part["name"], part["arguments"]) for part in message["parts"]] == [
        ("weather", {"city": "Oslo"}),
        ("weather", {"city": "Rome"}),
        ("clock", {"zone": "CET"}),
    ]


def _chunk(delta: Answer) -> Answer:
    return {"choices": [{"index": 0, "delta": {"tool_calls": [delta]}}]}


# Anthropic's messages


def blocks() -> st.SearchStrategy[list[Answer]]:
    """Every block that Anthropic's API documents in an answer."""
    cited = {"type": "web_search_result_location", "url": "https://example.org", "cited_text": "A"}
    found = {"type": "web_search_result", "url": "https://example.org", "title": "A"}
    no = {"type": "text", "text": "No."}
    ran = {"type": "code_execution_result", "stdout": "1", "return_code": 0}
    block = st.one_of(
        of("text", text=TEXTS),
        of("text", text=TEXTS, citations=[cited, cited]),
        of("thinking", thinking=TEXTS, signature="s"),
        of("redacted_thinking", data=WORDS),
        of("compaction", content=TEXTS),
        of("tool_use", id="t", name="f", input=INPUTS),
        of("server_tool_use", id="s", name="web_search", input=INPUTS),
        of("mcp_tool_use", id="m", name="f", server_name="files", input=INPUTS),
        of("web_search_tool_result", tool_use_id="s", content=[found]),
        of("mcp_tool_result", tool_use_id="m", is_error=True, content=[no]),
        of("code_execution_tool_result", tool_use_id="s", content=ran),
        of("container_upload", file_id="file_1"),
    )
    return some(block, most=4)


_GROWN = {"text": ("text", "text_delta"), "thinking": ("thinking", "thinking_delta")}
_GROWN["compaction"] = ("content", "compaction_delta")


def block_events(block: Answer, index: int, size: int) -> Iterator[Answer]:
    begun, deltas = dict(block), []
    if block["type"] in _GROWN:
        field, kind = _GROWN[block["type"]]
        begun[field] = ""
        deltas = [{"type": kind, field: piece} for piece in pieces(block[field], size)]
        if "citations" in block:
            begun["citations"] = []
            deltas += [{"type": "citations_delta", "citation": c} for c in block["citations"]]
        if "signature" in block:
            begun["signature"] = ""
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
    elif "input" in block:
        begun["input"] = {}
        said = json.dumps(block["input"]) if block["input"] else ""
        deltas = [{"type": "input_json_delta", "partial_json": p} for p in pieces(said, size)]
    yield {"type": "content_block_start", "index": index, "content_block": begun}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


@given(content=blocks(), size=st.integers(1, 9), is_numbered=st.booleans())
@example([{"type": "text", "text": "A", "citations": [{"cited_text": "A"}] * 2}], 1, True)
def test_a_streamed_message_equals_one_that_was_not_streamed(
    content: list[Answer], size: int, is_numbered: bool
) -> None:
    """Also of a proxy that gives all blocks the same index."""
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude"}
    usage = {"input_tokens": 9, "output_tokens": 4, "cache_read_input_tokens": 5}
    answer = {**head, "content": content, "stop_reason": "end_turn", "usage": usage}
    begun = {**head, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    events: list[Answer] = [{"type": "message_start", "message": begun}]
    for index, block in enumerate(content):
        events.extend(block_events(block, index if is_numbered else 0, size))
    ended = {"stop_reason": "end_turn"}
    events.append({"type": "message_delta", "delta": ended, "usage": {"output_tokens": 4}})
    events.append({"type": "message_stop"})
    assert streamed(messages, events) == recorded(messages, answer)


# OpenAI's responses


def output_items() -> st.SearchStrategy[list[Answer]]:
    """Every item that OpenAI's API documents in an answer, without its id."""
    cited = {"type": "url_citation", "url": "https://example.org", "title": "A"}
    said = of("output_text", text=TEXTS, annotations=[cited])
    thoughts = st.tuples(*[of("summary_text", text=TEXTS)] * 2).map(list)
    arguments = INPUTS.map(json.dumps)
    item = st.one_of(
        of(
            "message",
            role="assistant",
            content=st.tuples(said, of("refusal", refusal=TEXTS)).map(list),
        ),
        of(
            "reasoning",
            summary=thoughts,
            content=st.tuples(of("reasoning_text", text=TEXTS)).map(list),
        ),
        of("function_call", call_id="c", name="f", arguments=arguments),
        of("custom_tool_call", call_id="c", name="f", input=TEXTS),
        of("mcp_call", server_label="files", name="f", output=None, arguments=arguments),
        of("code_interpreter_call", code=TEXTS, container_id="k"),
        of("web_search_call", action={"type": "search", "query": "A"}),
        of("file_search_call", queries=["A"], results=None),
        of("computer_call", call_id="c", action={"type": "screenshot"}),
        of("image_generation_call", result="AAAA"),
        of("local_shell_call", call_id="c", action={"type": "exec"}),
        of("shell_call", call_id="c", action={"commands": ["ls"]}),
        of("mcp_list_tools", server_label="files", tools=[{"name": "f"}]),
        of("mcp_approval_request", server_label="files", name="f"),
    )
    return some(item, most=4).map(
        lambda found: [{"id": f"item_{number}", **each} for number, each in enumerate(found)]
    )


THOUGHT = [
    {"id": "i", "type": "reasoning", "summary": [{"type": "summary_text", "text": "A"}]},
]
_ITEM_FIELDS = {
    "function_call": ("arguments", "function_call_arguments"),
    "custom_tool_call": ("input", "custom_tool_call_input"),
    "mcp_call": ("arguments", "mcp_call_arguments"),
    "code_interpreter_call": ("code", "code_interpreter_call_code"),
}
_PART_EVENTS = {
    "output_text": ("text", "output_text", "content_index"),
    "refusal": ("refusal", "refusal", "content_index"),
    "summary_text": ("text", "reasoning_summary_text", "summary_index"),
    "reasoning_text": ("text", "reasoning_text", "content_index"),
}


def item_events(item: Answer, index: int, size: int) -> Iterator[Answer]:
    about = {"item_id": item["id"], "output_index": index}
    begun = {key: [] if key in ("content", "summary") else each for key, each in item.items()}
    field, stem = _ITEM_FIELDS.get(item["type"], ("", ""))
    if field:
        begun[field] = ""
    yield {"type": "response.output_item.added", "output_index": index, "item": begun}
    for piece in pieces(item[field] if field else "", size):
        yield {"type": f"response.{stem}.delta", **about, "delta": piece}
    for key in ("summary", "content"):
        for number, part in enumerate(item.get(key, ())):
            said, stem, place = _PART_EVENTS[part["type"]]
            for piece in pieces(part[said], size):
                yield {"type": f"response.{stem}.delta", **about, place: number, "delta": piece}
            for annotation in part.get("annotations", ()):
                yield {
                    "type": "response.output_text.annotation.added",
                    **about,
                    place: number,
                    "annotation": annotation,
                }


@given(
    output=output_items(),
    size=st.integers(1, 9),
    cut=st.sampled_from(["deltas", "items", "end without output", ""]),
    is_numbered=st.booleans(),
)
@example(THOUGHT, 1, "deltas", True)
def test_a_streamed_response_equals_one_that_was_not_streamed(
    output: list[Answer], size: int, cut: str, is_numbered: bool
) -> None:
    """Whether it is read from deltas, from items that are done, or from the last event."""
    answer = {"id": "resp_1", "model": "m", "status": "completed", "output": output}
    events: list[Answer] = [{"type": "response.created", "response": {**answer, "output": []}}]
    for number, item in enumerate(output):
        index = number if is_numbered else 0
        events.extend(item_events(item, index, size))
        if cut != "deltas":
            done = {"type": "response.output_item.done", "output_index": index, "item": item}
            events.append(done)
    if cut in ("", "end without output"):
        last = answer if not cut else {**answer, "output": []}
        events.append({"type": "response.completed", "response": last})
    assert streamed(responses, events) == recorded(responses, answer)
