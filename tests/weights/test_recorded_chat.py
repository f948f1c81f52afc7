from __future__ import annotations

from ratchet.weights.recorded_chat import recorded_chat
from tests.weights.recorded import WEATHER, asked, call

ASK = {"role": "user", "content": "Is it raining in Oslo?"}
CALLS = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {
            "id": "c1",
            "type": "function",
            "function": {"name": "weather", "arguments": '{"city":"Oslo"}'},
        }
    ],
}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "rain"}


def test_calls_that_go_on_are_one_conversation_with_every_answer_learned() -> None:
    first = call([ASK], CALLS, tools=[WEATHER], reason="tool_calls")
    second = call([ASK, CALLS, RESULT], "Yes.", tools=[WEATHER])
    (example,) = recorded_chat([first, second]).examples
    assert list(example.messages) == [ASK, CALLS, RESULT, {"role": "assistant", "content": "Yes."}]
    assert example.learned == (1, 3)
    assert example.tools == (WEATHER,)
    assert example.spans == (first.span_id, second.span_id)


def test_a_rewritten_history_is_a_conversation_of_its_own() -> None:
    summary = {"role": "user", "content": "Summary: it rains."}
    found = recorded_chat([*asked("a", "b"), call([summary], "c")])
    assert [example.learned for example in found.examples] == [(1,), (1,)]


def test_a_call_recorded_by_a_framework_and_by_the_gateway_counts_once() -> None:
    (example,) = recorded_chat([*asked("a", "b"), *asked("a", "b")]).examples
    assert len(example.spans) == 1


def test_calls_that_cannot_be_used_are_counted_by_reason() -> None:
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,x"}}]}
    found = recorded_chat(
        [
            call([ASK], "It is", reason="length"),
            call([ASK], "x", status="error"),
            call([ASK], "y" * 300_000),
            call([{"role": "user", "content": "Mail [redacted:email]"}], "ok"),
            call([image], "a cat"),
        ]
    )
    assert not found.examples
    assert found.left_out == {
        "its answer was cut off at the token limit": 1,
        "the call failed": 1,
        "only a part of it was recorded": 1,
        "part of it was redacted": 1,
        "it has content of the type 'blob', which is not recorded completely": 1,
    }


def test_what_anthropic_calls_a_user_message_with_a_result_is_a_tool_message() -> None:
    span = asked("x", "done")[0]
    span.attributes["gen_ai.input.messages"] = (
        '[{"role":"user","parts":[{"type":"text","content":"x"}]},'
        '{"role":"assistant","parts":[{"type":"tool_call","id":"c","name":"weather","arguments":{}}]},'
        '{"role":"user","parts":[{"type":"tool_call_response","id":"c","response":"rain"}]}]'
    )
    span.attributes["gen_ai.system_instructions"] = '[{"type":"text","content":"Be brief."}]'
    (example,) = recorded_chat([span]).examples
    assert [one["role"] for one in example.messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
