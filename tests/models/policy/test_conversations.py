"""Prompts of continued conversations, and tool calls in answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.models.policy.tiny_models import tokenizer

from ratchet.models.policy.answers import AnswerWriter
from ratchet.models.policy.conversations import AnsweredConversations, normalise
from ratchet.models.policy.generation import Generation
from ratchet.models.policy.tokens import ChatTokenizer
from ratchet.models.policy.tool_calls import in_text, parse_answer

pytestmark = pytest.mark.torch

TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
EOS = 257


def message(role: str, content: str, **given: Any) -> dict[str, Any]:
    return normalise({"role": role, "content": content, **given})


def test_a_continued_conversation_begins_with_the_very_ids_of_before() -> None:
    tokens = ChatTokenizer(tokenizer())
    known = AnsweredConversations(tokens)
    asked = [message("user", "hi")]
    first = known.prompt(asked, [], "")
    # The same text by other ids than the tokenizer would choose.
    said = [*tokens.encode("yes"), *tokens.encode("!"), EOS]
    answer = message("assistant", "yes!")
    strange = [5, *first[1:], *said]
    known.answered([*asked, answer], [], "", strange)
    more = [*asked, answer, message("user", "why")]
    rest = tokens.encode("\n<|im_start|>user\nwhy<|im_end|>\n<|im_start|>assistant\n")
    assert known.prompt(more, [], "") == [*strange, *rest]
    # An answer that was cut short gets its end first.
    known.answered([*asked, answer], [], "", strange[:-1])
    assert known.prompt(more, [], "") == [*strange, *rest]


def test_the_least_recent_conversations_are_forgotten() -> None:
    tokens = ChatTokenizer(tokenizer())
    known = AnsweredConversations(tokens, limit=2)
    for text in "abc":
        known.answered([message("user", text), message("assistant", "x")], [], "", [9, EOS])
    found = [
        known.prompt(
            [message("user", text), message("assistant", "x"), message("user", "y")], [], ""
        )
        for text in "abc"
    ]
    assert [ids[0] == 9 for ids in found] == [False, True, True]


def test_calls_are_parsed_in_the_formats_of_hermes_and_llama() -> None:
    parsed = parse_answer(f"Let me add.\n{CALL}\n{CALL}", TOOLS)
    assert parsed.content == "Let me add."
    assert [json.loads(call["function"]["arguments"]) for call in parsed.calls] == [{"a": 1}] * 2
    assert len({call["id"] for call in parsed.calls}) == 2
    llama = parse_answer('{"name": "add", "parameters": {"a": 2}}', TOOLS)
    assert llama.calls[0]["function"] == {"name": "add", "arguments": '{"a": 2}'}


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>{broken</tool_call>",
        '<tool_call>{"arguments": {}}</tool_call>',
        '<tool_call>["add"]</tool_call>',
        '{"name": "unknown", "parameters": {}}',
        '{"name": "add"',
        "plain",
    ],
)
def test_what_is_no_call_stays_text(text: str) -> None:
    parsed = parse_answer(text, TOOLS)
    assert (parsed.content, parsed.calls) == (text, [])
    assert parse_answer(CALL, []).content == CALL


def test_a_template_without_tools_gets_them_as_text() -> None:
    called = {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    texts = in_text(
        [
            message("system", "Be brief."),
            message("user", "add"),
            message("assistant", "", tool_calls=[called]),
            message("tool", "3", tool_call_id="1"),
            message("tool", "4", tool_call_id="2"),
        ],
        TOOLS,
    )
    assert [one["role"] for one in texts] == ["system", "user", "assistant", "user"]
    assert texts[0]["content"].startswith("Be brief.")
    assert json.dumps(TOOLS[0]) in texts[0]["content"]
    assert parse_answer(texts[2]["content"], TOOLS).calls[0]["function"]["name"] == "add"
    assert texts[3]["content"].count("<tool_response>") == 2


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    "text",
    [f"So: {CALL}", "a < b, <tool_ not a call", '{"name": "add", "parameters": {}}', "naïve 🙂"],
)
def test_a_stream_of_any_pieces_gives_the_answer_s_text_and_calls(text: str, size: int) -> None:
    tokens = ChatTokenizer(tokenizer())
    one = Generation([1], adapter=None, version="", max_tokens=9, stop_ids=frozenset({EOS}))
    writer = AnswerWriter(
        [one], tokens, model="m", about={}, tools=TOOLS, token_ids=True, logprobs=True
    )
    ids = [*tokens.encode(text), EOS]
    content, calls, told = "", [], []
    for at in range(0, len(ids), size):
        one.response.extend(ids[at : at + size])
        one.logprobs.extend([-1.0] * len(ids[at : at + size]))
        if len(one.response) == len(ids):
            one.finish_reason = "stop"
        for chunk in writer.chat_chunks():
            choice = chunk["choices"][0]
            content += choice["delta"].get("content", "")
            calls += choice["delta"].get("tool_calls", [])
            assert len(choice["token_ids"]) == len(choice["logprobs"]["content"])
            told += choice["token_ids"]
            reason = choice["finish_reason"]
    whole = writer.chat()["choices"][0]
    assert told == ids == whole["token_ids"]
    assert content == (whole["message"]["content"] or "")
    assert reason == whole["finish_reason"] == ("tool_calls" if calls else "stop")
    assert [call["id"] for call in calls] == [
        call["id"] for call in whole["message"].get("tool_calls", [])
    ]


def test_the_prompt_of_a_tool_agent_extends_its_last_call(tmp_path: Path) -> None:
    tokens = ChatTokenizer(tokenizer())
    known = AnsweredConversations(tokens)
    asked = [message("user", "add")]
    prompt = known.prompt(asked, TOOLS, "")
    said = [*tokens.encode(CALL), EOS]
    one = Generation(prompt, adapter=None, version="", max_tokens=99, stop_ids=frozenset({EOS}))
    one.response.extend(said)
    one.finish_reason = "stop"
    writer = AnswerWriter([one], tokens, model="m", about={}, tools=TOOLS)
    answer = writer.message(writer.parsed(one))
    known.answered([*asked, normalise(answer)], TOOLS, "", [*prompt, *said])
    # Clients send the arguments back in their own spacing.
    answer["tool_calls"][0]["function"]["arguments"] = '{ "a":1 }'
    result = message("tool", "3", tool_call_id=answer["tool_calls"][0]["id"])
    longer = known.prompt([*asked, normalise(answer), result], TOOLS, "")
    assert longer[: len(prompt) + len(said)] == [*prompt, *said]
