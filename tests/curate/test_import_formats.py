"""Formats: what is read of conversations, trajectories, and the exports of three tools."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.curate.importing import (
    FORMATS,
    FormatMismatch,
    ImportContext,
    ImportedRecords,
    format_of,
)
from ratchet.curate.importing.cell_values import structured
from ratchet.curate.importing.records import trace_id_of, unix_ns
from ratchet.observe.dialects import names
from ratchet.store.usage import call_of
from ratchet.types import Span
from ratchet.types.feedback import fault

CONTEXT = ImportContext(at_ns=1_700_000_000_000_000_000)


def read(
    value: Any, format: str | None = None, context: ImportContext = CONTEXT
) -> ImportedRecords:
    name = format or format_of(value)
    assert name is not None
    return FORMATS[name].read(value, context)


def spans(value: Any, format: str | None = None) -> list[Span]:
    return [record.span for record in read(value, format).spans]


OPENAI = {
    "model": "gpt-4o-mini",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is 6 times 7?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "multiply", "arguments": '{"a": 6, "b": 7}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "42"},
        {"role": "assistant", "content": "It is 42."},
    ],
}
ANTHROPIC = {
    "system": "Be brief.",
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "What is 6 times 7?"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "I multiply."},
                {"type": "tool_use", "id": "t1", "name": "multiply", "input": {"a": 6, "b": 7}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "42"}],
        },
        {"role": "assistant", "content": "It is 42."},
    ],
}


@pytest.mark.parametrize(("value", "format"), [(OPENAI, "openai"), (ANTHROPIC, "anthropic")])
def test_a_conversation_is_a_trace_with_its_calls_and_tools(value: Any, format: str) -> None:
    assert format_of(value) == format
    agent, first, tool, second = spans(value)
    assert [span.attributes["gen_ai.operation.name"] for span in (agent, first, tool, second)] == [
        "invoke_agent",
        "chat",
        "execute_tool",
        "chat",
    ]
    assert {span.parent_id for span in (first, tool, second)} == {agent.span_id}
    assert len({span.trace_id for span in (agent, first, tool, second)}) == 1
    assert json.loads(agent.attributes["ratchet.input"]) == "What is 6 times 7?"
    assert json.loads(agent.attributes["ratchet.output"]) == "It is 42."
    assert tool.attributes["gen_ai.tool.name"] == "multiply"
    assert json.loads(tool.attributes["gen_ai.tool.call.arguments"]) == {"a": 6, "b": 7}
    assert json.loads(tool.attributes["gen_ai.tool.call.result"]) == "42"
    roles = [each["role"] for each in json.loads(second.attributes["gen_ai.input.messages"])]
    assert roles == ["system", "user", "assistant", "tool"]
    assert json.loads(second.attributes["gen_ai.output.messages"])[0]["parts"] == [
        {"type": "text", "content": "It is 42."}
    ]
    assert agent.start_ns == CONTEXT.at_ns <= first.start_ns <= second.end_ns <= agent.end_ns
    assert agent.attributes["ratchet.import.time"] == "made up"


def test_other_tools_names_for_roles_and_times_of_messages_are_understood() -> None:
    talk = {
        "conversations": [
            {"from": "human", "value": "q", "timestamp": "2026-05-02T10:00:00Z"},
            {"from": "gpt", "value": "a", "timestamp": 1_777_716_002},
        ]
    }
    agent, call = spans(talk)
    assert agent.start_ns == unix_ns("2026-05-02T10:00:00Z") == 1_777_716_000 * 10**9
    assert call.end_ns == 1_777_716_002 * 10**9
    assert "ratchet.import.time" not in call.attributes
    logged = {"prompt": [{"role": "user", "content": "q"}], "completion": "a"}
    assert json.loads(spans(logged)[0].attributes["ratchet.output"]) == "a"


def test_a_long_conversation_does_not_take_space_with_the_square_of_its_length() -> None:
    talk = [
        {"role": role, "content": "x" * 100} for _ in range(400) for role in ("user", "assistant")
    ]
    size = sum(len(span.attributes.get("gen_ai.input.messages", "")) for span in spans(talk))
    assert size < 40 * 80 * 200 + 400 * 1_000


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"messages": []}, "no messages"),
        ({"messages": [{"role": "user", "content": "q"}]}, "it has no answer"),
        ({"messages": ["q"]}, "message 1 is not an object"),
        ({"messages": [{"content": "q"}]}, "message 1 has no role"),
        ({"note": 1}, "no list of messages"),
        (17, "not a conversation"),
        (None, "not a conversation"),
    ],
)
def test_what_is_no_conversation_is_told_of(value: Any, why: str) -> None:
    with pytest.raises(FormatMismatch, match=why):
        FORMATS["openai"].read(value, CONTEXT)


def test_equal_trajectories_of_a_group_are_as_many_rollouts() -> None:
    one = {"messages": OPENAI["messages"], "reward": 1}
    group = {"task_id": "t", "trajectories": [one, one, {"reward": 0}, {**one, "reward": "high"}]}
    found = read(group)
    assert len({rollout.id for rollout in found.rollouts}) == 2
    assert {rollout.task_id for rollout in found.rollouts} == {"t"}
    assert [reason.partition(":")[0] for reason in found.skipped] == [
        "trajectory 3",
        "trajectory 4",
    ]
    assert len(read([one, one]).rollouts) == 2
    steps = {"messages": OPENAI["messages"], "rewards": [0.25, 0.5]}
    assert read(steps).scores[0][1].value == 0.75


def test_where_no_rollouts_are_taken_a_reward_is_feedback() -> None:
    value = {**OPENAI, "reward": 0.75}
    found = read(value, None, ImportContext(at_ns=1, rollouts=False))
    assert not found.rollouts
    assert not found.scores
    assert (found.feedback[0].kind, found.feedback[0].value) == ("rating", 0.75)
    assert found.feedback[0].trace_id == found.spans[0].span.trace_id
    assert fault(found.feedback[0]) is None


TRACE = {
    "id": "lf-trace-1",
    "timestamp": "2026-05-02T10:00:00.000Z",
    "name": "support",
    "userId": "u1",
    "sessionId": "s1",
    "input": {"question": "q"},
    "output": "a",
    "latency": 2.5,
    "tags": ["eu"],
    "metadata": {"k": 1},
    "level": "DEFAULT",
}
GENERATION = {
    "id": "lf-obs-1",
    "traceId": "lf-trace-1",
    "type": "GENERATION",
    "name": "answer",
    "startTime": "2026-05-02T10:00:00.500Z",
    "endTime": "2026-05-02T10:00:01.500Z",
    "completionStartTime": "2026-05-02T10:00:00.750Z",
    "model": "gpt-4o-mini",
    "modelParameters": {"temperature": "0.2", "max_tokens": 50},
    "input": [{"role": "user", "content": "q"}],
    "output": {"role": "assistant", "content": "a"},
    "usageDetails": {"input": 3, "output": 1, "total": 4},
    "totalCost": 0.002,
    "level": "ERROR",
    "statusMessage": "cut",
    "parentObservationId": None,
}


def test_a_trace_of_langfuse_is_read_with_its_observations_and_scores() -> None:
    tool = {
        **GENERATION,
        "id": "o2",
        "type": "TOOL",
        "name": "find",
        "parentObservationId": "lf-obs-1",
    }
    scores = [
        {"id": "sc1", "name": "correct", "value": 1, "dataType": "BOOLEAN", "traceId": TRACE["id"]},
        {"id": "sc2", "name": "tone", "value": 0.4, "dataType": "NUMERIC", "comment": "curt",
         "observationId": "lf-obs-1"},
        {"id": "sc3", "name": "kind", "dataType": "CATEGORICAL", "stringValue": "refund"},
    ]  # fmt: skip
    value = {
        **TRACE,
        "observations": [GENERATION, tool, "id-alone", {"id": "o3"}],
        "scores": scores,
    }
    assert format_of(value) == "langfuse"
    found = read(value)
    root, call, step = (record.span for record in found.spans)
    assert root.trace_id == call.trace_id == step.trace_id
    assert (call.parent_id, step.parent_id) == (root.span_id, call.span_id)
    assert (root.start_ns, root.end_ns) == (1_777_716_000 * 10**9, 1_777_716_002_500_000_000)
    assert call.attributes["gen_ai.operation.name"] == "chat"
    assert call.attributes["gen_ai.usage.input_tokens"] == 3
    assert call.attributes["gen_ai.request.temperature"] == 0.2
    assert call.attributes["gen_ai.response.time_to_first_chunk"] == 0.25
    assert call.attributes["ratchet.cost_usd"] == 0.002
    assert (call.status, call.message) == ("error", "cut")
    assert json.loads(call.attributes["gen_ai.output.messages"])[0]["role"] == "assistant"
    assert "gen_ai.tool.call.arguments" in step.attributes
    assert {span.attributes["gen_ai.conversation.id"] for span in (root, call, step)} == {"s1"}
    assert {record.agent for record in found.spans} == {"support"}
    assert [(each.kind, each.value) for each in found.feedback] == [
        ("thumbs", 1.0),
        ("rating", 0.4),
        ("comment", None),
    ]
    assert found.feedback[1].span_id == call.span_id
    assert [fault(each) for each in found.feedback] == [None, None, None]
    assert found.skipped == ("observation o3: it has no time: its startTime is missing or invalid",)


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        (  # as Langfuse's wrapper of OpenAI's client ingests it
            {
                "input": 176,
                "input_cached_tokens": 1024,
                "output": 26,
                "output_reasoning_tokens": 64,
                "total": 1290,
            },
            (1200, 90, 1024, 0, 0),
        ),
        (  # Anthropic's names, without a total
            {
                "input": 20,
                "cache_read_input_tokens": 1800,
                "cache_creation_input_tokens": 248,
                "output": 9,
            },
            (2068, 9, 1800, 248, 0),
        ),
        (
            {
                "input": 20,
                "input_cache_creation_1h": 100,
                "input_cache_creation_5m": 148,
                "output": 9,
            },
            (268, 9, 0, 248, 100),
        ),
        (  # an application's own, whose total says that details are parts of the others
            {"input": 1200, "input_cached_tokens": 1024, "output": 90, "total": 1290},
            (1200, 90, 1024, 0, 0),
        ),
    ],
)
def test_buckets_of_langfuses_usage_exclude_each_other(
    details: dict[str, int], expected: tuple[int, ...]
) -> None:
    found = read({**GENERATION, "usageDetails": details})
    call = call_of(found.spans[0].span.attributes)
    assert expected == (
        call.input_tokens,
        call.output_tokens,
        call.cache_read_tokens,
        call.cache_write_tokens,
        call.cache_write_1h_tokens,
    )


def test_rows_of_langfuse_fit_together_whatever_file_they_come_from() -> None:
    trace, observation = read(TRACE).spans[0].span, read(GENERATION).spans[0].span
    assert observation.trace_id == trace.trace_id
    assert observation.parent_id == trace.span_id
    cells = {
        **{key: json.dumps(each) if isinstance(each, (dict, list)) else str(each)
           for key, each in GENERATION.items() if each is not None},
    }  # fmt: skip
    from_csv = read(cells).spans[0].span
    assert from_csv.span_id == observation.span_id
    assert (
        from_csv.attributes["gen_ai.input.messages"]
        == observation.attributes["gen_ai.input.messages"]
    )
    alone = read({"trace": TRACE, "observations": [GENERATION]})
    assert [record.span.span_id for record in alone.spans] == [trace.span_id, observation.span_id]


PHOENIX = {
    "id": "U3Bhbjox",
    "name": "ChatCompletion",
    "context": {"trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": "b7ad6b7169203331"},
    "span_kind": "LLM",
    "parent_id": "00f067aa0ba902b7",
    "start_time": "2026-05-02T10:00:00.000001+00:00",
    "end_time": "2026-05-02T10:00:01+00:00",
    "status_code": "OK",
    "status_message": "",
    "attributes": {
        "llm.model_name": "gpt-4o-mini",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "q",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "a",
        "llm.token_count.prompt": 3,
        "session.id": "s2",
    },
    "events": [
        {
            "name": "exception",
            "timestamp": "2026-05-02T10:00:00.5+00:00",
            "attributes": {"exception.type": "E"},
        }
    ],
}


def test_rows_of_phoenix_data_frames_are_the_same_spans() -> None:
    row = {
        "name": "ChatCompletion",
        "context.trace_id": "0af7651916cd43dd8448eb211c80319c",
        "context.span_id": "b7ad6b7169203331",
        "span_kind": "LLM",
        "parent_id": "00f067aa0ba902b7",
        "start_time": 1_777_716_000_000,
        "end_time": 1_777_716_001_000,
        "status_code": "OK",
        "attributes.llm.model_name": "gpt-4o-mini",
        "attributes.llm.input_messages": [{"message.role": "user", "message.content": "q"}],
        "attributes.llm.output_messages": '[{"message": {"role": "assistant", "content": "a"}}]',
        "attributes.session": {"id": "s2"},
        "events": [],
    }
    assert format_of(row) == "phoenix"
    (span,) = spans(row)
    (same,) = spans(PHOENIX)
    assert span.span_id == same.span_id
    for key in ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.conversation.id"):
        assert span.attributes[key] == same.attributes[key]


TOOL = {
    "name": "weather",
    "context.trace_id": "0af7651916cd43dd8448eb211c80319c",
    "context.span_id": "b7ad6b7169203331",
    "span_kind": "TOOL",
    "start_time": "2024-05-02 10:00:00.000001+00:00",
    "end_time": "2024-05-02 10:00:01+00:00",
    "attributes.tool.name": "weather",
    "attributes.input.value": '{"city": "Paris", "days": [{"n": 1}]}',
    "attributes.input.mime_type": "application/json",
    "attributes.output.value": '[{"sky": "grey"}]',
    "attributes.tool.parameters": {"city": {"type": "string"}},
    "attributes.metadata": {"user": {"tier": 1}},
}


def test_rows_of_phoenix_are_the_same_spans_as_pandas_and_numpy_print_them() -> None:
    row = {
        "name": "ChatCompletion",
        "context.trace_id": "0af7651916cd43dd8448eb211c80319c",
        "context.span_id": "b7ad6b7169203331",
        "span_kind": "LLM",
        "start_time": "2024-05-02 10:00:00.000001+00:00",
        "attributes.llm.input_messages": [
            {"message.role": "user", "message.content": "it's } {'q'}"},
            {"message.role": "assistant", "message.content": None},
        ],
        "attributes.llm.token_count.prompt": 12,
        "events": [
            {"name": "exception", "timestamp": "2024-05-02T10:00:00+00:00", "attributes": {"n": 1}}
        ],
    }
    listed: Any = row["attributes.llm.input_messages"]
    stamp = "datetime.datetime(2024, 5, 2, 10, 0, tzinfo=datetime.timezone.utc)"
    event = f"[{{'name': 'exception', 'timestamp': {stamp}, 'attributes': {{'n': 1}}}}]"
    numpy = f"[{listed[0]!r}\n {listed[1]!r}]"
    (want,) = spans(row)
    for printed in (repr(listed), numpy, f"array({listed!r}, dtype=object)"):
        (span,) = spans(
            {
                **row,
                "attributes.llm.input_messages": printed,
                "attributes.llm.token_count.prompt": "12.0",
                "events": event,
            }
        )
        assert span == want
    assert json.loads(want.attributes["gen_ai.input.messages"])[0]["parts"][0]["content"] == (
        "it's } {'q'}"
    )
    assert want.attributes["gen_ai.usage.input_tokens"] == 12


@pytest.mark.parametrize(
    "text", ["[__import__('os').system('x')]", "[" + "-" * 5000 + "1]", "[1, ...]", "{x}", "[open]"]
)
def test_a_cell_is_never_run_and_what_is_no_literal_stays_a_text(text: str) -> None:
    assert structured(text) == text


def test_messages_are_read_from_a_text_of_them_in_any_file() -> None:
    talk = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "[1, 2]"}]
    for messages in (json.dumps(talk), json.dumps(talk, indent=1), repr(talk)):
        assert [s.name for s in spans({"messages": messages})] == ["invoke_agent imported", "chat"]
        row = {"history": messages, "scores": "{'a': 1, 'b': nan}"}
        assert [score.value for _, score in read(row).scores] == [1.0]
    (rollout,) = read({"messages": json.dumps(talk), "reward": "0.5"}).rollouts
    assert (rollout.input, rollout.output) == ("q", "[1, 2]")
    # What only looks like JSON is the text that was said.
    pair = read({"prompt": "[1]", "completion": '{"a": 1}'}).spans[0].span.attributes
    assert (pair[names.INPUT], pair[names.OUTPUT]) == ('"[1]"', json.dumps('{"a": 1}'))


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), "nan", "high"])
def test_a_reward_that_is_no_finite_number_is_named(reward: Any) -> None:
    talk = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}
    for fields in ({"reward": reward}, {"rewards": [1.0, reward]}, {"scores": {"b": reward}}):
        assert format_of({**talk, **fields}) == "trajectories"
        with pytest.raises(
            FormatMismatch, match=r"its (reward|rewards\[1\]|scores.b) is not a fin"
        ):
            read({**talk, **fields})
    some = read({**talk, "scores": {"a": 0.5, "b": reward, "c": None}})
    assert [score.value for _, score in some.scores] == [0.5]
    assert some.skipped == (f"its scores.b is not a finite number: {reward}",)


def mlflow(**changes: Any) -> dict[str, Any]:
    """What `Trace.to_json` of MLflow 3 wrote of a small agent, shortened."""
    first = {
        "trace_id": "tHU60TYR7ybMqvC/xYo52w==",
        "span_id": "KfY3H624Zcs=",
        "parent_span_id": None,
        "name": "agent",
        "start_time_unix_nano": 1795264273660002769,
        "end_time_unix_nano": 1795264273783086848,
        "events": [],
        "status": {"code": "STATUS_CODE_OK", "message": ""},
        "attributes": {
            "mlflow.traceRequestId": '"tr-b4753ad13611ef26ccaaf0bfc58a39db"',
            "mlflow.spanType": '"AGENT"',
            "mlflow.spanInputs": '{"q": "hello"}',
            "mlflow.spanOutputs": '{"r": 1}',
        },
    }
    second = {
        **first,
        "span_id": "KDHci/MHTQQ=",
        "parent_span_id": "KfY3H624Zcs=",
        "name": "chat",
        "status": {"code": "STATUS_CODE_ERROR", "message": "ValueError: no"},
        "events": [
            {
                "name": "exception",
                "time_unix_nano": 1795264273782850560,
                "attributes": {"exception.type": "ValueError"},
            }
        ],
        "attributes": {
            "mlflow.spanType": '"CHAT_MODEL"',
            "mlflow.spanInputs": '{"messages": [{"role": "user", "content": "q"}], "model": "m1"}',
            "mlflow.spanOutputs": (
                '{"choices": [{"message": {"role": "assistant", "content": "a"},'
                ' "finish_reason": "stop"}]}'
            ),
            "mlflow.chat.tokenUsage": '{"input_tokens": 3, "output_tokens": 1}',
        },
    }
    info = {
        "trace_id": "tr-b4753ad13611ef26ccaaf0bfc58a39db",
        "request_time": "2026-11-21T12:31:13.660Z",
        "state": "OK",
        "trace_metadata": {"mlflow.trace.session": "s3"},
        "tags": {"mlflow.traceName": "agent"},
        "assessments": [
            {
                "assessment_id": "a-1",
                "assessment_name": "good",
                "feedback": {"value": True},
                "rationale": "yes",
                "create_time": "2026-11-21T12:31:14.790Z",
                "span_id": "KDHci/MHTQQ=",
                "valid": True,
            },
            {"assessment_name": "old", "feedback": {"value": 0.1}, "valid": False},
            {"assessment_name": "expected", "expectation": {"value": "42"}},
        ],
    }
    return {"info": info, "data": {"spans": [first, second, {"name": "bare"}]}, **changes}


def test_rows_and_the_older_form_of_mlflow_are_read_too() -> None:
    whole = mlflow()
    ids = [record.span.span_id for record in read(whole).spans]
    as_row = {"trace_id": "tr-b4753ad13611ef26ccaaf0bfc58a39db", "trace": json.dumps(whole)}
    assert [record.span.span_id for record in read(as_row).spans] == ids
    spans_row = {"trace_id": whole["info"]["trace_id"], "spans": whole["data"]["spans"]}
    assert [record.span.span_id for record in read(spans_row).spans] == ids
    older = {
        "info": {"request_id": "abc", "timestamp_ms": 1, "status": "OK", "request_metadata": {}},
        "data": {
            "spans": [
                {
                    "name": "run",
                    "context": {"span_id": "0x29f6371fadb865cb", "trace_id": "0x1"},
                    "parent_id": None,
                    "start_time": 1795264273660002769,
                    "end_time": 1795264273783086848,
                    "status_code": "OK",
                    "attributes": {"mlflow.spanType": '"TOOL"', "mlflow.spanInputs": '{"a": 1}'},
                    "events": [],
                }
            ]
        },
    }
    (span,) = spans(older)
    assert (span.span_id, span.status) == ("29f6371fadb865cb", "ok")
    assert json.loads(span.attributes["gen_ai.tool.call.arguments"]) == {"a": 1}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("2026-05-02T10:00:00Z", 1_777_716_000 * 10**9),
        ("2026-05-02 10:00:00", 1_777_716_000 * 10**9),
        ("2026-05-02T12:00:00+02:00", 1_777_716_000 * 10**9),
        (1_777_716_000, 1_777_716_000 * 10**9),
        (1_777_716_000.25, 1_777_716_000_250_000_000),
        (1_777_716_000_000, 1_777_716_000 * 10**9),
        ("1777716000000000", 1_777_716_000 * 10**9),
        (1_777_716_000_000_000_001, 1_777_716_000_000_000_001),
        ("yesterday", None),
        ("", None),
        (None, None),
        (True, None),
        (-5, None),
        (float("nan"), None),
        (10**30, None),
        ("0001-01-01T00:00:00Z", None),
    ],
)
def test_moments_are_understood_in_every_unit(given: Any, found: int | None) -> None:
    assert unix_ns(given) == found


NAMES = (
    "messages role content reward id traceId timestamp startTime userId context trace_id span_id"
    " start_time info data spans trace scores tool_calls attributes observations trajectories parts"
    " events type name"
)
KEYS = NAMES.split()
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=20,
)


@given(st.sampled_from(sorted(FORMATS)), anything)
def test_any_value_is_read_or_told_of(format: str, value: Any) -> None:
    format_of(value)
    try:
        found = FORMATS[format].read(value, CONTEXT)
    except FormatMismatch:
        return
    assert found.spans


BLOB = {
    "id": "o1",
    "trace_id": "t1",
    "project_id": "p",
    "parent_observation_id": None,
    "type": "GENERATION",
    "name": "llm",
    "trace_name": "support bot",
    "session_id": "s1",
    "user_id": "u1",
    "start_time": "2026-11-20 10:00:00.300000",
    "end_time": "2026-11-20 10:00:00.900000",
    "provided_model_name": "gpt-4o-mini",
    "usage_details": {"input": 12, "output": 5},
    "cost_details": {"total": 0.0003},
    "input": '[{"role": "user", "content": "hi"}]',
    "output": '{"role": "assistant", "content": "yes"}',
    "level": "ERROR",
    "status_message": "late",
}


def test_langfuse_rows_in_blob_storage_are_those_of_its_api() -> None:
    assert format_of(BLOB) == "langfuse"
    (record,) = read(BLOB).spans
    span = record.span
    assert record.agent == "support-bot"
    assert span.parent_id is None, "no row of its trace comes with it"
    assert (span.status, span.message) == ("error", "late")
    assert span.end_ns - span.start_ns == 600_000_000
    assert span.attributes["gen_ai.request.model"] == "gpt-4o-mini"
    assert span.attributes["gen_ai.usage.input_tokens"] == 12
    assert span.attributes["ratchet.cost_usd"] == 0.0003
    assert span.attributes["gen_ai.conversation.id"] == "s1"
    api = {"id": "o1", "traceId": "t1", "type": "SPAN", "startTime": "2026-11-20T10:00:00Z"}
    assert spans(api)[0].span_id == span.span_id


@pytest.mark.parametrize(
    "score",
    [
        {"id": "c", "traceId": "t1", "name": "good", "value": 1, "dataType": "BOOLEAN"},
        {"id": "c", "trace_id": "t1", "project_id": "p", "name": "good", "value": 1,
         "data_type": "BOOLEAN", "observation_id": None, "source": "API"},
    ],
    ids=["api", "blob"],
)  # fmt: skip
def test_a_score_of_langfuse_by_itself_is_feedback(score: dict[str, Any]) -> None:
    assert format_of(score) == "langfuse"
    (item,) = read(score).feedback
    assert (item.kind, item.value) == ("thumbs", 1.0)
    assert item.trace_id == trace_id_of("langfuse", "t1")
    assert fault(item) is None


def test_a_score_of_a_session_is_left_out_with_a_reason() -> None:
    with pytest.raises(FormatMismatch, match="not of a trace"):
        read({"id": "c", "traceId": None, "name": "x", "value": 1, "source": "API"})


def test_rows_of_others_are_not_taken_for_langfuses() -> None:
    row = {"trace_id": "tr-1", "spans": [], "project_id": "p"}
    assert format_of(row) == "mlflow"
    assert format_of({**BLOB, "messages": OPENAI["messages"]}) == "langfuse"
    assert format_of({"id": 1, "user_id": "u", **OPENAI}) == "openai"
