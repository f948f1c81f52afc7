"""From requests to spans: both encodings say the same, limits are kept, owners are found."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from ratchet.observe.agent_names import agent_name
from ratchet.server.otlp.limits import MAX_ATTRIBUTES, MAX_DEPTH, MAX_ITEMS, MAX_TEXT, Malformed
from ratchet.server.otlp.messages import decode_json, decode_protobuf
from ratchet.server.otlp.records import CUT_ATTRIBUTE, records_of
from ratchet.types import Span, SpanEvent, SpanRecord
from tests.server.otlp.requests import any_value, as_json, pairs, request, span


def records(made: Any, attempt: tuple[str, int] | None = None) -> list[SpanRecord]:
    """The spans of a request, which both encodings must agree on."""
    binary = records_of(decode_protobuf(made.SerializeToString()), attempt)
    assert records_of(decode_json(as_json(made)), attempt) == binary
    return binary.kept


def only(made: Any) -> Span:
    (record,) = records(made)
    return record.span


EVERYTHING: dict[str, Any] = {
    "text": "é\x00",
    "empty": "",
    "yes": True,
    "no": False,
    "zero": 0,
    "large": 2**63 - 1,
    "small": -(2**63),
    "fraction": 1.5,
    "large fraction": 1e300,
    "whole": 2.0,
    "bytes": b"\xff\xfe?",
    "nothing": None,
    "list": ["a", 1, [], {"b": [None, 2.5]}],
    "map": {"a": {"b": {"c": "d"}}},
    "no list": [],
    "no map": {},
}


def test_both_encodings_give_the_same_spans() -> None:
    given = span(
        EVERYTHING,
        parent_span_id=b"parent!!",
        kind=3,
        status={"code": 2, "message": "broke"},
        events=[{"name": "exception", "time_unix_nano": 5, "attributes": pairs({"a": 1})}],
        links=[{"trace_id": b"T" * 16, "span_id": b"S" * 8, "attributes": pairs({"b": 2})}],
        dropped_attributes_count=4,
    )
    found = only(request(given, service__name="bot", process__command_line="run --key secret"))
    assert found == Span(
        trace_id=given["trace_id"].hex(),
        span_id=given["span_id"].hex(),
        parent_id=b"parent!!".hex(),
        name=given["name"],
        start_ns=given["start_time_unix_nano"],
        end_ns=given["end_time_unix_nano"],
        status="error",
        message="broke",
        attributes={
            **EVERYTHING,
            "bytes": "//4/",
            "service.name": "bot",
            "otel.scope.name": "instrumentation",
            "otel.scope.version": "1.2",
            "span.kind": "client",
            "otel.links": [
                {
                    "trace_id": (b"T" * 16).hex(),
                    "span_id": (b"S" * 8).hex(),
                    "attributes": {"b": 2},
                }
            ],
            "otel.dropped_attributes_count": 4,
        },
        events=(SpanEvent("exception", 5, {"a": 1}),),
    )


def in_json(**fields: Any) -> list[SpanRecord]:
    """A span in JSON as other languages' exporters write it."""
    one = {"traceId": "0" * 31 + "1", "spanId": "0" * 15 + "1", **fields}
    body = {"resourceSpans": [{"scopeSpans": [{"spans": [one]}]}]}
    return records_of(decode_json(json.dumps(body).encode()), None).kept


def test_json_as_others_write_it() -> None:
    (record,) = in_json(
        parentSpanId="",
        name="n",
        kind="SPAN_KIND_SERVER",
        startTimeUnixNano=1544712660000000000,
        endTimeUnixNano="1544712661000000000",
        status={"code": "STATUS_CODE_OK", "message": None},
        attributes=[
            {"key": "a", "value": {"intValue": 5}},
            {"key": "b", "value": {"intValue": "-5"}},
            {"key": "c", "value": {"doubleValue": 5}},
            {"key": "d", "value": {"doubleValue": "Infinity"}},
            {"key": "e", "value": {"bytesValue": "__4_"}},
            {"key": "f", "value": {"arrayValue": {}}},
            {"key": "g", "value": {"kvlistValue": {"values": None}}},
            {"key": "h", "value": {}},
            {"key": "i"},
            {"key": "j", "value": {"somethingNew": 1}},
            {"key": "k", "value": {"intValue": "12345678901234567890"}},
            {"key": "l", "value": {"intValue": "many"}},
            {"key": "m", "value": {"doubleValue": "much"}},
            {"key": "n", "value": {"bytesValue": "%"}},
        ],
        events=None,
        somethingNew=[1],
    )
    found = record.span
    assert (found.start_ns, found.end_ns) == (1544712660000000000, 1544712661000000000)
    assert (found.status, found.message, found.parent_id) == ("ok", "", None)
    expected = {
        "a": 5,
        "b": -5,
        "c": 5.0,
        "d": math.inf,
        "e": "//4/",
        "f": [],
        "g": {},
        "h": None,
        "i": None,
        "j": None,
        "k": "12345678901234567890",
        "l": "many",
        "m": "much",
        "n": "%",
        "span.kind": "server",
    }
    assert found.attributes == expected
    assert isinstance(found.attributes["c"], float)


@pytest.mark.parametrize(
    "fields",
    [
        {"traceId": "5b8aa5a2d2c872e8321cf37308d69df"},
        {"traceId": "5b8aa5a2d2c872e8321cf37308d69dfz"},
        {"traceId": "5b8aa5a2 d2c872e8321cf37308d69df"},
        {"traceId": "W4qlotLIcugyHPNzCNad8g=="},
        {"traceId": None},
        {"spanId": "é" * 16},
        {"startTimeUnixNano": "yesterday"},
        {"startTimeUnixNano": 1.5},
        {"endTimeUnixNano": -1},
        {"endTimeUnixNano": "9" * 5000},
    ],
)
def test_json_spans_without_usable_ids_or_times_are_rejected(fields: dict[str, Any]) -> None:
    assert len(in_json()) == 1
    assert in_json(**fields) == []


def test_a_parent_that_is_none_is_left_out_and_said() -> None:
    assert only(request(span(parent_span_id=bytes(8)))).parent_id is None
    found = only(request(span(parent_span_id=b"odd")))
    assert found.parent_id is None
    assert found.attributes[CUT_ATTRIBUTE] == ["the parent's id, which is not 8 bytes"]


def test_what_is_too_much_is_cut_and_said() -> None:
    long = "x" * (MAX_TEXT + 5)
    found = only(
        request(
            span(
                {
                    "long": long,
                    "k" * 300: "dropped",
                    "nested": [long],
                    **{f"a{number}": number for number in range(MAX_ATTRIBUTES + 10)},
                },
                name="n" * 2000,
                events=[{"name": "e", "time_unix_nano": 2**64 - 1}] * 1001,
            ),
            service__name="bot",
        )
    )
    attributes = found.attributes
    assert attributes["long"] == f"{'x' * MAX_TEXT}… [5 more characters]"
    assert attributes["nested"] == [attributes["long"]]
    assert attributes["service.name"] == "bot"
    assert "k" * 300 not in attributes
    assert attributes[CUT_ATTRIBUTE] == [
        f"long: {MAX_TEXT} of {MAX_TEXT + 5} characters",
        "16 attributes",
        "the name: 1024 of 2000 characters",
        "1 events",
    ]
    assert (len(found.name), len(found.events)) == (1024, 1000)
    assert found.events[0].time_ns == 2**63 - 1


def test_lists_and_maps_are_bounded() -> None:
    many = only(request(span({"list": [1] * (MAX_ITEMS + 2)}))).attributes["list"]
    assert (len(many), many[-1]) == (MAX_ITEMS + 1, "[2 more items]")
    entries = {str(number): 1 for number in range(MAX_ITEMS + 2)}
    pairs_kept = only(request(span({"map": entries}))).attributes["map"]
    assert (len(pairs_kept), pairs_kept["…"]) == (MAX_ITEMS + 1, "[2 more items]")
    deep: Any = "bottom"
    for _ in range(MAX_DEPTH + 3):
        deep = [deep]
    found = only(request(span({"deep": deep}))).attributes["deep"]
    for _ in range(MAX_DEPTH):
        (found,) = found
    assert found == "[nested too deeply]"


@pytest.mark.parametrize("depth", [200, 100_000])
def test_bodies_that_are_nested_beyond_reason_are_refused(depth: int) -> None:
    value = any_value("x").SerializeToString()
    for _ in range(min(depth, 2000)):
        inner = b"\x0a" + _varint(len(value)) + value
        value = b"\x2a" + _varint(len(inner)) + inner
    made = request(span({"a": "b"}))
    pair = b"\x0a\x01x\x12" + _varint(len(value)) + value
    attribute = b"\x0a" + _varint(len(pair)) + pair
    resource = b"\x0a" + _varint(len(attribute)) + attribute
    body = made.SerializeToString() + b"\x0a" + _varint(len(resource)) + resource
    with pytest.raises(Malformed):
        decode_protobuf(body)
    nested = '{"arrayValue":{"values":[' * depth + "]}}" * depth
    pair_text = '{"key":"a","value":' + nested + "}"
    text = '{"resourceSpans":[{"resource":{"attributes":[' + pair_text + "]}}]}"
    if depth > 1000:
        with pytest.raises(Malformed, match="nested too deeply"):
            decode_json(text.encode())


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))


OWNED = {"ratchet.rollout.id": "r", "ratchet.attempt": 2}


def owner(made: Any, attempt: tuple[str, int] | None = None) -> tuple[str, int, str]:
    (record,) = records(made, attempt)
    return record.rollout_id, record.fence, record.agent


@pytest.mark.parametrize(
    "attributes",
    [
        {"ratchet.rollout.id": "r"},
        {"ratchet.attempt": 1},
        {"ratchet.rollout.id": "", "ratchet.attempt": 1},
        {"ratchet.rollout.id": "r" * 201, "ratchet.attempt": 1},
        {"ratchet.rollout.id": 5, "ratchet.attempt": 1},
        {"ratchet.rollout.id": "r", "ratchet.attempt": -1},
        {"ratchet.rollout.id": "r", "ratchet.attempt": 2**31},
        {"ratchet.rollout.id": "r", "ratchet.attempt": "x"},
        {"ratchet.rollout.id": "r", "ratchet.attempt": True},
        {"ratchet.rollout.id": "r", "ratchet.attempt": [1]},
    ],
)
def test_what_names_no_attempt_is_live_traffic(attributes: dict[str, Any]) -> None:
    made = request(span(attributes), service__name="bot")
    assert owner(made) == ("", 0, "bot")
    (record,) = records(made)
    assert record.span.attributes.items() >= attributes.items()


def test_a_token_of_an_attempt_puts_all_spans_to_it() -> None:
    mine = ("r", 2)
    assert owner(request(span()), mine)[:2] == mine
    assert owner(request(span(OWNED)), mine)[:2] == mine
    assert owner(request(span({"ratchet.rollout.id": "r"})), mine)[:2] == mine


@pytest.mark.parametrize(
    ("resource", "agent"),
    [
        ({"service.name": "bot"}, "bot"),
        ({"service.name": "bot", "gen_ai.agent.name": "mine"}, "mine"),
        ({"service.name": "unknown_service:python"}, "unknown_service-python"),
        ({"service.name": " ümlaut / x "}, "umlaut-x"),
        ({"service.name": "é"}, "e"),
        ({"service.name": "!?"}, "unknown"),
        ({"service.name": ""}, "unknown"),
        ({"service.name": 5}, "unknown"),
        ({"service.name": "a" * 300}, "a" * 100),
        ({}, "unknown"),
    ],
)
def test_the_agent_of_live_spans(resource: dict[str, Any], agent: str) -> None:
    made = request(span(), **{key.replace(".", "__"): value for key, value in resource.items()})
    assert owner(made) == ("", 0, agent)
    assert agent_name(agent) == agent


def test_of_a_resource_what_says_who_it_is_goes_into_each_span() -> None:
    found = only(
        request(
            span({"service.name": "of the span"}),
            service__name="bot",
            service__version="1",
            deployment__environment__name="production",
            telemetry__sdk__language="nodejs",
            process__command_args=["--token", "secret"],
            os__description="long",
        )
    )
    assert found.attributes == {
        "service.name": "of the span",
        "service.version": "1",
        "deployment.environment.name": "production",
        "telemetry.sdk.language": "nodejs",
        "otel.scope.name": "instrumentation",
        "otel.scope.version": "1.2",
    }
