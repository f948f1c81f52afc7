from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionMessageParam
from pydantic import TypeAdapter

from ratchet.weights.export import FORMATS, write_examples, write_pairs
from ratchet.weights.export.checks import fault_of_example
from ratchet.weights.recorded_chat import ChatExample, ChatPair, recorded_chat
from tests.weights.recorded import WEATHER, call

OPENAI_MESSAGES = TypeAdapter(list[ChatCompletionMessageParam])
OPENAI_TOOLS = TypeAdapter(list[ChatCompletionFunctionToolParam])

SYSTEM = {"role": "system", "content": "Be brief."}
ASK = {"role": "user", "content": "Rain in Oslo and Rome?"}
CALLS: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {
            "id": f"c{number}",
            "type": "function",
            "function": {"name": "weather", "arguments": json.dumps({"city": city})},
        }
        for number, city in enumerate(("Oslo", "Rome"))
    ],
}
RESULTS = [{"role": "tool", "tool_call_id": f"c{n}", "content": f"rain {n}"} for n in range(2)]
ANSWER = {"role": "assistant", "content": "Both."}


def conversation() -> ChatExample:
    first = call([SYSTEM, ASK], CALLS, tools=[WEATHER], reason="tool_calls")
    second = call([SYSTEM, ASK, CALLS, *RESULTS], "Both.", tools=[WEATHER])
    (example,) = recorded_chat([first, second]).examples
    return example


def with_shots() -> ChatExample:
    shots = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    (example,) = recorded_chat([call([*shots, ASK], "No.")]).examples
    return example


def pair() -> ChatPair:
    worse = {"role": "assistant", "content": "I do not know."}
    return ChatPair(
        messages=(ASK, CALLS, *RESULTS), chosen=ANSWER, rejected=worse, tools=(WEATHER,)
    )


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_openai_reads_what_is_exported_for_it(tmp_path: Path) -> None:
    left_out: Counter[str] = Counter()
    file = tmp_path / "sft.jsonl"
    assert write_examples([conversation(), with_shots()], file, "openai", left_out) == 2
    whole, shots = rows(file)
    for row in (whole, shots):
        OPENAI_MESSAGES.validate_python(row["messages"])
    OPENAI_TOOLS.validate_python(whole["tools"])
    assert [m.get("weight") for m in whole["messages"]] == [None] * 6
    assert [m.get("weight") for m in shots["messages"]] == [None, 0, None, None]
    assert "tools" not in shots
    assert not left_out


def test_trl_gets_a_line_for_each_answer_and_arguments_as_objects(tmp_path: Path) -> None:
    file = tmp_path / "trl.jsonl"
    assert write_examples([conversation()], file, "trl", Counter()) == 2
    first, second = rows(file)
    assert [m["role"] for m in first["prompt"]] == ["system", "user"]
    called = first["completion"][0]["tool_calls"][0]["function"]
    assert called == {"name": "weather", "arguments": {"city": "Oslo"}}
    assert [m["role"] for m in second["prompt"]] == ["system", "user", "assistant", "tool", "tool"]
    assert second["tools"] == [WEATHER]
    assert write_pairs([pair()], file, "trl", Counter()) == 1
    assert set(rows(file)[0]) == {"prompt", "chosen", "rejected", "tools"}


def test_what_sharegpt_cannot_say_is_left_out_and_counted(tmp_path: Path) -> None:
    left_out: Counter[str] = Counter()
    talkative = {**CALLS, "content": "Let me look."}
    (both,) = recorded_chat([call([ASK], talkative, tools=[WEATHER])]).examples
    file = tmp_path / "sharegpt.jsonl"
    assert write_examples([with_shots(), both], file, "sharegpt", left_out) == 0
    assert left_out == {
        "in ShareGPT's format every answer in the prompt is learned": 1,
        "ShareGPT allows no answer with both a text and a tool call": 1,
    }
    assert not file.exists()
    assert not list(tmp_path.iterdir())


def test_parquet_holds_messages_and_says_which_are_learned(tmp_path: Path) -> None:
    from pyarrow import parquet

    file = tmp_path / "sft.parquet"
    assert write_examples([conversation(), with_shots()], file, "parquet", Counter()) == 2
    first, second = parquet.read_table(file).to_pylist()
    assert first["messages"][2]["tool_calls"][0] == {
        "id": "c0",
        "name": "weather",
        "arguments": '{"city":"Oslo"}',
    }
    assert [m["learned"] for m in second["messages"]] == [False, False, False, True]
    assert json.loads(first["tools"]) == [WEATHER]
    assert write_pairs([pair()], file, "parquet", Counter()) == 1
    assert parquet.read_table(file).to_pylist()[0]["rejected"][0]["content"] == "I do not know."


def damaged(**changes: Any) -> ChatExample:
    fields = {"messages": (ASK, ANSWER), "learned": (1,), "tools": ()}
    return ChatExample(**{**fields, **changes})


def asks_with(arguments: str, name: str = "weather") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    calls = [{"id": "c0", "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


@pytest.mark.parametrize(
    ("example", "fault"),
    [
        (damaged(learned=()), "it has no answer from the model"),
        (damaged(learned=(0,)), "its last message is not an answer from the model"),
        (damaged(learned=(0, 1)), "not all messages to learn are the assistant's"),
        (damaged(messages=(SYSTEM, ANSWER)), "it has no user message"),
        (
            damaged(messages=(ASK, {"role": "assistant", "content": " "})),
            "it has an empty assistant message",
        ),
        (
            damaged(messages=(ASK, RESULTS[0], ANSWER), learned=(2,)),
            "it has a tool result without a call",
        ),
        (
            damaged(messages=(ASK, CALLS, RESULTS[0], ANSWER), learned=(3,), tools=(WEATHER,)),
            "it has a tool call without a result",
        ),
        (
            damaged(messages=(ASK, asks_with("{}", "mail")), tools=(WEATHER,)),
            "it calls a tool that its request does not define",
        ),
        (
            damaged(messages=(ASK, asks_with("{city")), tools=(WEATHER,)),
            "it has a tool call whose arguments are not JSON",
        ),
        (
            damaged(messages=(ASK, asks_with("[1]")), tools=(WEATHER,)),
            "it has a tool call without named arguments",
        ),
    ],
)
def test_what_a_service_would_refuse_is_left_out_with_its_reason(
    example: ChatExample, fault: str, tmp_path: Path
) -> None:
    assert fault_of_example(example) == fault
    left_out: Counter[str] = Counter()
    for format in FORMATS:
        assert write_examples([example], tmp_path / "file", format, left_out) == 0
    assert left_out == {fault: len(FORMATS)}


def test_an_earlier_file_stays_when_nothing_can_be_written(tmp_path: Path) -> None:
    file = tmp_path / "sft.jsonl"
    file.write_text("earlier")
    assert write_examples([], file, "openai", Counter()) == 0
    assert file.read_text() == "earlier"


text = st.text(min_size=1, max_size=20).filter(str.strip)


@given(st.lists(st.tuples(text, text), min_size=1, max_size=4), st.sampled_from([*FORMATS]))
def test_any_conversation_is_written_in_every_format(
    turns: list[tuple[str, str]], format: str
) -> None:
    import tempfile

    messages = [
        {"role": role, "content": said}
        for turn in turns
        for role, said in zip(("user", "assistant"), turn, strict=True)
    ]
    example = ChatExample(
        messages=tuple(messages), learned=tuple(range(1, len(messages), 2)), subject="r"
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "file"
        assert write_examples([example], file, format, Counter())
        if format != "parquet":
            assert all(json.loads(line) for line in file.read_bytes().splitlines())
