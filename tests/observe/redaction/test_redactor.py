"""Spans, feedback and JSON: where it looks, and what it leaves alone."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.observe.redaction import RedactionRules, Redactor, redactor_of
from ratchet.observe.redaction.decoding import folded_visible
from ratchet.observe.redaction.finding import Finder
from ratchet.observe.redaction.prefilter import may_match
from ratchet.types import ConfigError, Feedback, Span, SpanEvent, SpanRecord

MAIL = "ann@example.com"
FRAGMENTS = (
    *("ann@example.com", "4111 1111 1111 1111", "password", "=", ": ", "hunter2", '"', "\\", "%40"),
    *("sk-", "Ab3dEf7hIj1kLm5nOp9q", "+49 30 ", "1234567", "84.17.2.9", "DE89", "37040044"),
    *(
        "0532013000",
        "{",
        "}",
        "[",
        "]",
        ",",
        "\n",
        " ",
        "\u200b",
        "\uff14\uff11\uff11\uff11",
        "Bearer ",
        "Cookie: ",
    ),
    *("a=b", "token", "api_key", "… [3 more characters]", "[redacted:email]", "://u:p4ss@h", "é"),
    *("-----BEGIN PRIVATE KEY-----", "eyJhbGciOiJIUzI1NiJ9", ".", "&#64;", "\\u0040", "secret is "),
)
texts = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=6), max_size=12).map("".join)


def span(**options: Any) -> Span:
    given = {"trace_id": "1" * 32, "span_id": "2" * 16, "name": "step", "start_ns": 1, "end_ns": 2}
    return Span(**{**given, **options})


def attributes(redactor: Redactor, **given: Any) -> dict[str, Any]:
    return redactor.span(span(attributes=given)).attributes


def test_the_address_of_a_denied_host_stays_so_that_it_can_be_allowed() -> None:
    denied = {"ratchet.act.kind": "connect", "ratchet.act.subject": "10.253.155.219"}
    assert attributes(Redactor(), **denied) == denied
    said = span(message=f"It tried 10.253.155.219:80, for {MAIL} at 10.1.2.3.", attributes=denied)
    kept = Redactor().span(said).message
    assert "10.253.155.219:80" in kept
    assert MAIL not in kept
    assert "10.1.2.3" not in kept
    other = {"seen": "10.253.155.219", "ratchet.act.subject": f"10.253.155.219 {MAIL}"}
    found = attributes(Redactor(), **other)
    assert not any("10.253" in value or MAIL in value for value in found.values())


def test_every_part_of_a_span_is_looked_at() -> None:
    given = span(
        name=f"mail {MAIL}",
        message=f"no such user {MAIL}",
        attributes={"a": f"to {MAIL}", "list": ["x", MAIL], "map": {"b": {"c": MAIL}}, "n": 1},
        events=(SpanEvent("exception", 5, {"exception.stacktrace": f"raise Unknown({MAIL!r})"}),),
    )
    left = Redactor().record(SpanRecord(span=given, agent="helper"))
    assert MAIL not in repr(left)
    assert left.agent == "helper"
    assert left.span.attributes["n"] == 1
    assert left.span.events[0].time_ns == 5
    assert MAIL in repr(given), "what was given is not changed"


def test_a_span_without_secrets_is_the_same_object() -> None:
    given = span(attributes={"gen_ai.input.messages": '[{"role": "user"}]', "tags": ["a", "b"]})
    assert Redactor().span(given) is given


def test_fields_are_known_by_name_in_attributes_and_in_json_within_json() -> None:
    inner = json.dumps({"Authorization": "abc", "headers": {"X-Api-Key": ["k1", "k2"]}, "n": None})
    left = attributes(
        Redactor(),
        **{
            "http.request.header.authorization": ["Digest x"],
            "gen_ai.input.messages": json.dumps([{"role": "tool", "content": inner}]),
            "db.password": "sesame",
        },
    )
    assert left["http.request.header.authorization"] == ["[redacted:field]"]
    assert left["db.password"] == "[redacted:field]"
    content = json.loads(json.loads(left["gen_ai.input.messages"])[0]["content"])
    assert content == {
        "Authorization": "[redacted:field]",
        "headers": {"X-Api-Key": ["[redacted:field]", "[redacted:field]"]},
        "n": None,
    }


def test_descriptions_of_fields_and_words_of_models_stay() -> None:
    schema = json.dumps({"properties": {"password": {"type": "string", "description": "yours"}}})
    words = json.dumps([{"token": " the", "logprob": -0.1}, {"token": "Hi", "logprob": -2}])
    counts = {"gen_ai.usage.input_tokens": 12, "llm.token_count.total": 20, "is_secret": True}
    given = {"gen_ai.tool.definitions": schema, "logprobs": words, **counts}
    assert attributes(Redactor(), **given) == given


def test_a_field_that_stands_twice_hides_nothing() -> None:
    text = '{"note": "sk-Ab3dEf7hIj1kLm5nOp9qRs", "note": "x"}'
    assert "Ab3dEf7" not in Redactor().text(text)


def test_names_of_fields_are_looked_at_too() -> None:
    left = Redactor().text(json.dumps({MAIL: 3}))
    assert json.loads(left) == {"[redacted:email]": 3}
    assert attributes(Redactor(), **{f"seen.{MAIL}": 1}) == {"[redacted:email]": 1}


def test_a_number_may_be_a_card() -> None:
    left = attributes(Redactor(), card=4111111111111111, at_ns=1767225600000000000, x=2**63)
    assert left == {"card": "[redacted:card]", "at_ns": 1767225600000000000, "x": 2**63}


def test_json_that_is_nested_without_end_is_looked_at_as_text() -> None:
    deep = '{"a":' * 3_000 + f'"{MAIL}"' + "}" * 3_000
    assert MAIL not in Redactor().text(deep)
    value: Any = MAIL
    for _ in range(200):
        value = [value]
    assert MAIL not in repr(attributes(Redactor(), deep=value))


def test_feedback_is_redacted() -> None:
    given = Feedback(id="1", kind="correction", comment=MAIL, content={"chosen": [MAIL]})
    left = Redactor().feedback(given)
    assert MAIL not in repr(left)
    bare = Redactor(RedactionRules(capture_content=False)).feedback(given)
    assert (bare.comment, bare.content, bare.kind) == ("", None, "correction")


def test_rules_are_switched_on_and_off() -> None:
    text = f"{MAIL} from 84.17.2.9"
    assert Redactor(RedactionRules(rules=("-ip",))).text(text) == "[redacted:email] from 84.17.2.9"
    assert Redactor(RedactionRules(rules=("ip",))).text(text) == f"{MAIL} from [redacted:ip]"
    assert Redactor(RedactionRules(enabled=False)).text(text) == text
    with pytest.raises(ConfigError, match="no rule 'mail'"):
        Redactor(RedactionRules(rules=("mail",)))
    with pytest.raises(ConfigError, match="with and without a minus"):
        Redactor(RedactionRules(rules=("ip", "-email")))


def test_a_project_names_fields_of_its_own() -> None:
    redactor = Redactor(RedactionRules(keys=("customer.name", "x_*", "$.whole.path", "headers.*")))
    body = {
        "customer": {"name": "Ann", "id": 4},
        "name": "Ben",
        "x_1": {"y": "z"},
        "headers": {"a": 1},
    }
    left = json.loads(attributes(redactor, **{"ratchet.input": json.dumps(body)})["ratchet.input"])
    assert left == {
        "customer": {"name": "[redacted:field]", "id": 4},
        "name": "Ben",
        "x_1": {"y": "[redacted:field]"},
        "headers": {"a": "[redacted:field]"},
    }
    assert attributes(redactor, **{"whole.path": "v", "my.whole.path": "v"}) == {
        "whole.path": "[redacted:field]",
        "my.whole.path": "v",
    }
    cut = '{"customer": {"id": 4, "name": "Ann Miller", "x'
    assert "Ann" not in Redactor(RedactionRules(keys=("customer.name",))).text(cut)
    with pytest.raises(ConfigError, match="is not a field name"):
        Redactor(RedactionRules(keys=("*",)))


def test_what_is_allowed_stays() -> None:
    redactor = Redactor(RedactionRules(allow=("support@example.com", "*@ours.example", "10.*")))
    text = f"support@example.com, x@OURS.example, 10.1.2.3 and {MAIL}"
    assert redactor.text(text).endswith("10.1.2.3 and [redacted:email]")
    assert redactor.text(text).startswith("support@example.com, x@OURS.example")


def test_pseudonyms_keep_equal_values_equal_and_tell_nothing_without_the_key() -> None:
    environ = {"RATCHET_REDACTION_KEY": "k" * 32}
    redactor = redactor_of(RedactionRules(pseudonyms=True), environ)
    one, same, other = (
        redactor.text(text)
        for text in ("4111 1111 1111 1111", "4111111111111111", "4242424242424242")
    )
    assert one == same != other
    assert one.startswith("[redacted:card:")
    assert redactor.text(one) == one
    elsewhere = redactor_of(RedactionRules(pseudonyms=True), {"RATCHET_REDACTION_KEY": "j" * 32})
    assert elsewhere.text("4111111111111111") != one
    with pytest.raises(ConfigError, match="secret of at least 16 characters"):
        redactor_of(RedactionRules(pseudonyms=True), {})


def test_a_defect_costs_the_content_and_never_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Finder, text: str) -> bool:
        raise ZeroDivisionError

    monkeypatch.setattr(Finder, "may_contain_secret", fail)
    redactor = Redactor()
    left = redactor.span(span(name=MAIL, message=MAIL, attributes={"a": MAIL, "n": 2}))
    assert MAIL not in repr(left)
    assert left.attributes["n"] == 2
    assert left.attributes["ratchet.redaction.error"] == "ZeroDivisionError"
    assert left.start_ns == 1
    assert redactor.text(MAIL) == "[redacted:failed-zerodivisionerror]"
    assert redactor.feedback(Feedback(id="1", kind="comment", comment=MAIL)).comment == ""


@given(texts)
def test_any_text_is_redacted_once_and_for_all(text: str) -> None:
    once = Redactor().text(text)
    assert Redactor().text(once) == once


@given(texts)
def test_what_a_rule_finds_was_suspected(text: str) -> None:
    finder = Redactor()._finder
    if any(not finder._may_stay(text, part) for part in finder._find(text)):
        assert may_match(folded_visible(text))


@given(
    st.recursive(
        st.none() | st.integers() | st.floats() | texts,
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.sampled_from(FRAGMENTS), inner, max_size=4)
        ),
        max_leaves=12,
    )
)
def test_any_value_keeps_its_shape(value: Any) -> None:
    left = Redactor().span(span(attributes={"value": value})).attributes
    assert "ratchet.redaction.error" not in left
    assert type(left["value"]) in (type(value), str)


@pytest.mark.parametrize(
    "nasty",
    [
        *(
            "\\" * 40_000,
            "password=" * 10_000,
            "eyJ-" * 40_000,
            "a-" * 80_000,
            "1 " * 80_000,
            '"' * 90_000,
        ),
        *(
            "@" * 90_000,
            "://" * 50_000,
            "sk-" * 50_000,
            "Bearer " * 20_000,
            "%41" * 50_000,
            ":" * 90_000,
        ),
        *(
            '{"a":"' * 25_000,
            "-----BEGIN PRIVATE KEY-----" * 5_000,
            "cookie: a=" * 15_000,
            "1." * 80_000,
        ),
        *(
            "token" * 30_000,
            "\u200b" * 90_000,
            "DE89 " * 30_000,
            "(at)" * 30_000,
            "[redacted:email]" * 9_000,
        ),
    ],
    ids=lambda nasty: nasty[:12],
)
def test_no_text_holds_the_process_up(nasty: str) -> None:
    begun = time.process_time()
    Redactor().text(nasty)
    # Seconds even where ten people share the machine; what grows with the square takes minutes.
    assert time.process_time() - begun < 8
