"""Clients of model providers, observed by the npm package: what is stored of each call."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from ratchet.llm import price
from ratchet.store.usage import call_of
from ratchet.types import Span
from tests.javascript.built import run
from tests.javascript.conftest import Site, newer_node
from tests.node_packages import node

pytestmark = [pytest.mark.xdist_group("node"), pytest.mark.long]

TEXT = "It is sunny."


class Recorded:
    """The model calls that a program made, by the name of the step around them."""

    def __init__(self, told: dict[str, Any], spans: list[Span]) -> None:
        self.told = told
        names = {span.span_id: span.name for span in spans}
        self._calls = {
            names[span.parent_id]: span
            for span in spans
            if span.parent_id is not None and "ratchet.model_api" in span.attributes
        }

        self.foreign = [
            span for span in spans if span.attributes["otel.scope.name"] != "agent-ratchet"
        ]

    def __getitem__(self, way: str) -> Span:
        return self._calls[way]

    def __contains__(self, way: str) -> bool:
        return way in self._calls

    def usage(self, way: str) -> tuple[int, int, float | None]:
        """Input tokens, output tokens and cost of a call."""
        span = self[way]
        call = call_of(span.attributes, failed=span.status == "error")
        return call.input_tokens, call.output_tokens, price(call)

    def parts(self, way: str) -> list[list[Any]]:
        """Parts of each message of the answer."""
        return [
            each["parts"] for each in json.loads(self[way].attributes["gen_ai.output.messages"])
        ]


def recorded(site: Site, programs: Path, program: str, node: str) -> Recorded:
    name = f"{program}-{uuid.uuid4().hex}"
    done = run([node, f"{program}.mjs"], programs, RATCHET_AGENT=name, **site.variables())
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return Recorded(json.loads(done.stdout), site.store.spans.live(name)[0])


@pytest.fixture(scope="module", params=["openai 6", "openai 7"])
def openai(site: Site, request: pytest.FixtureRequest) -> Recorded:
    return _of_version(site, request, "observed_openai", newer=request.param == "openai 7")


@pytest.fixture(scope="module", params=["@anthropic-ai/sdk 0.120", "@anthropic-ai/sdk 1.14"])
def anthropic(site: Site, request: pytest.FixtureRequest) -> Recorded:
    """Version 1 makes spans of its own."""
    newer = request.param == "@anthropic-ai/sdk 1.14"
    return _of_version(site, request, "observed_anthropic", newer=newer)


def _of_version(
    site: Site, request: pytest.FixtureRequest, program: str, *, newer: bool
) -> Recorded:
    programs = request.getfixturevalue("newer_programs" if newer else "programs")
    return recorded(site, programs, program, newer_node() if newer else node())


def test_the_caller_sees_what_they_would_see_without_it(openai: Recorded) -> None:
    assert openai.told["differing"] == {}
    assert openai.told["same"] is True
    assert openai.told["unhandled"] == 429
    # Asked with, and refused; asked without. Then the calls of the client that is not observed.
    assert openai.told["requests"] == {
        "old old": [True, False, False, False, False],
        "strict strict": [True, False, False],
        "bad gpt-4o-mini": [True, False],
        "bad another": [True, False, False],
    }


@pytest.mark.parametrize(
    "way",
    [
        *("plain", "stream", "own usage", "calls", "two", "helper", "with response", "raw", "tee"),
        *("readable", "other options", "response", "response stream", "raw response"),
    ],
)
def test_a_call_has_tokens_and_cost(openai: Recorded, way: str) -> None:
    tokens_in, tokens_out, cost = openai.usage(way)
    assert (tokens_in, tokens_out) == (1000, 200)
    assert cost == pytest.approx(0.00027)
    assert openai[way].status == "unset"


@pytest.mark.parametrize("way", ["plain", "stream", "response", "response stream", "raw", "helper"])
def test_a_streamed_call_is_recorded_as_one_that_is_not(openai: Recorded, way: str) -> None:
    attributes = openai[way].attributes
    assert [[part["content"] for part in parts] for parts in openai.parts(way)] == [[TEXT]]
    given = attributes["gen_ai.input.messages"] + attributes.get("gen_ai.system_instructions", "")
    assert "You tell the weather." in given
    assert "How is it?" in given
    assert "ratchet.input" not in attributes
    assert "ratchet.output" not in attributes
    streams = "stream" in way or way == "helper"
    assert (attributes.get("gen_ai.request.stream") is True) == streams
    assert ("gen_ai.response.time_to_first_chunk" in attributes) == streams


def test_tool_calls_and_choices_are_told_apart(openai: Recorded) -> None:
    ((first, second),) = openai.parts("calls")
    assert (first["id"], first["name"], first["arguments"]) == ("a", "weather", {"city": "Oslo"})
    assert (second["id"], second["name"], second["arguments"]) == ("b", "clock", {"zone": "CET"})
    assert [[part["content"] for part in parts] for parts in openai.parts("two")] == [
        ["one"],
        ["two"],
    ]


@pytest.mark.parametrize(
    ("way", "kind", "message"),
    [
        ("refused", "RateLimitError", "Slow down."),
        ("refused stream", "RateLimitError", "Slow down."),
        ("response refused", "RateLimitError", "Slow down."),
        ("bad", "BadRequestError", "The context is too long."),
        ("bad at first", "BadRequestError", "The context is too long."),
        ("error", "APIError", "The model crashed."),
        ("cut", "TypeError", "terminated"),
        ("late", "APIConnectionTimeoutError", "timed out"),
        ("by signal", "APIUserAbortError", "aborted"),
    ],
)
def test_a_call_that_fails_has_a_span(openai: Recorded, way: str, kind: str, message: str) -> None:
    span = openai[way]
    assert span.status == "error"
    assert span.attributes["error.type"] == kind
    assert message in span.message
    assert span.message.startswith(f"{kind}: ")


@pytest.mark.parametrize("way", ["refused", "refused stream", "response refused"])
def test_a_call_that_was_refused_costs_nothing(openai: Recorded, way: str) -> None:
    assert "ratchet.broken_off" not in openai[way].attributes


@pytest.mark.parametrize(
    "way",
    [
        *("left", "left at its end", "aborted", "never read", "by signal", "late", "cut", "error"),
        "response left",
    ],
)
def test_what_a_call_costs_that_broke_off_is_unknown(openai: Recorded, way: str) -> None:
    assert openai[way].attributes["ratchet.broken_off"] is True
    assert openai.usage(way)[2] is None
    if way in ("left", "aborted", "cut", "error"):
        assert openai.parts(way)[0][0]["content"].startswith("It ")


@pytest.mark.parametrize("way", ["no usage", "old", "after old", "strict", "raw stream"])
def test_where_no_usage_is_told_the_cost_is_not_measured(openai: Recorded, way: str) -> None:
    attributes = openai[way].attributes
    assert "gen_ai.usage.output_tokens" not in attributes
    assert "ratchet.broken_off" not in attributes
    assert attributes["gen_ai.request.stream"] is True


def test_embeddings_have_their_usage_and_no_vectors(openai: Recorded) -> None:
    attributes = openai["embedding"].attributes
    assert attributes["gen_ai.operation.name"] == "embeddings"
    assert attributes["gen_ai.usage.input_tokens"] == 8
    assert attributes["gen_ai.embeddings.dimension.count"] == 3
    assert "models" not in openai


@pytest.mark.parametrize("way", ["plain", "stream", "helper", "beta"])
def test_a_message_of_anthropics_has_tokens_and_cost(anthropic: Recorded, way: str) -> None:
    tokens_in, tokens_out, cost = anthropic.usage(way)
    assert (tokens_in, tokens_out) == (1000, 200)
    assert cost is not None
    assert anthropic[way].attributes["gen_ai.usage.cache_read.input_tokens"] == 100
    assert [[part["content"] for part in parts] for parts in anthropic.parts(way)] == [[TEXT]]
    assert "You tell the weather." in anthropic[way].attributes["gen_ai.system_instructions"]


def test_the_caller_of_anthropics_client_sees_what_they_would_see_without_it(
    anthropic: Recorded,
) -> None:
    assert anthropic.told["differing"] == {}


def test_a_message_of_anthropics_is_one_span(anthropic: Recorded) -> None:
    assert [span.name for span in anthropic.foreign if span.parent_id is not None] == []


def test_a_message_of_anthropics_that_breaks_off_or_fails_says_so(anthropic: Recorded) -> None:
    assert anthropic["left"].attributes["ratchet.broken_off"] is True
    assert anthropic["refused"].attributes["error.type"] == "RateLimitError"
    assert anthropic["refused"].status == "error"
