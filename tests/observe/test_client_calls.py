"""Model clients that no instrumentor fits: what they send and get is recorded."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

import anthropic
import httpx
import openai
import pytest
from anthropic.resources import messages as anthropic_messages
from openai.resources.chat import completions as openai_completions
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import get_current_span

from ratchet.observe.instruments import client_calls
from ratchet.observe.model_apis import chat, messages
from tests.frameworks.model_simulator import ModelSimulator

ANSWER = "I have no tool for that."
ASKED: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}]}
OF_OPENAI: dict[str, Any] = {"model": "gpt-4o-mini", **ASKED}
OF_ANTHROPIC: dict[str, Any] = {"model": "claude-3", "max_tokens": 9, **ASKED}
Ended = Callable[[], ReadableSpan]


@pytest.fixture(scope="module")
def model() -> Iterator[ModelSimulator]:
    with ModelSimulator() as simulator:
        yield simulator


@pytest.fixture
def provider() -> Iterator[tuple[TracerProvider, Ended]]:
    exporter = InMemorySpanExporter()
    made = TracerProvider(shutdown_on_exit=False)
    made.add_span_processor(SimpleSpanProcessor(exporter))

    def ended() -> ReadableSpan:
        (span,) = exporter.get_finished_spans()
        exporter.clear()
        return span

    yield made, ended
    made.shutdown()


@pytest.fixture
def clients(
    provider: tuple[TracerProvider, Ended], monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Classes of the real clients under names of their own, so that no other test is recorded."""
    own = ModuleType("clients_of_this_test")
    monkeypatch.setitem(sys.modules, own.__name__, own)
    for module, name, methods in (
        (openai_completions, "Completions", ("create",)),
        (anthropic_messages, "Messages", ("create", "stream")),
    ):
        for shown in (name, f"Async{name}"):
            real = getattr(module, shown)
            made = type(shown, (real,), {one: _plain_method(real, one) for one in methods})
            setattr(own, shown, made)
    places = (
        (own.__name__, "Completions", "create", chat),
        (own.__name__, "Messages", "create", messages),
        (own.__name__, "Messages", "stream", messages),
        (own.__name__, "Nothing", "create", chat),
        ("no_such_module_of_a_client", "Completions", "create", chat),
    )
    client_calls._record(provider[0], "theirs", places)
    return vars(own)


def _plain_method(owner: type, name: str) -> Any:
    """A method of a class, without what an instrumentor of another test has put around it."""
    found: Any = vars(owner)[name]
    while type(found) is not FunctionType:  # wrapt shows the class of what it wraps
        found = found.__wrapped__
    return found


def check(span: ReadableSpan, text: str = ANSWER) -> None:
    found = span.attributes or {}
    (message,) = json.loads(str(found["gen_ai.output.messages"]))
    assert message["parts"] == [{"type": "text", "content": text}]
    (asked,) = json.loads(str(found["gen_ai.input.messages"]))
    assert asked["parts"] == [{"type": "text", "content": "Hello"}]
    assert found["gen_ai.provider.name"] == "theirs"
    assert span.status.is_ok or span.status.is_unset


def check_tokens(span: ReadableSpan) -> None:
    found = span.attributes or {}
    assert (found["gen_ai.usage.input_tokens"], found["gen_ai.usage.output_tokens"]) == (60, 11)


def test_calls_of_openai_are_recorded_at_once_as_a_stream_and_raw(
    model: ModelSimulator, provider: tuple[TracerProvider, Ended], clients: dict[str, Any]
) -> None:
    _, ended = provider
    called = clients["Completions"](openai.OpenAI(base_url=f"{model.url}/v1", api_key="k"))
    assert called.create(**OF_OPENAI).choices[0].message.content == ANSWER
    span = ended()
    check(span)
    check_tokens(span)
    assert span.name == "chat gpt-4o-mini"
    stream = called.create(stream=True, stream_options={"include_usage": True}, **OF_OPENAI)
    assert isinstance(stream, openai.Stream)
    assert "".join(one.choices[0].delta.content or "" for one in stream if one.choices) == ANSWER
    span = ended()
    check(span)
    check_tokens(span)
    raw = called.with_raw_response.create(**OF_OPENAI)
    assert raw.parse().choices[0].message.content == ANSWER
    check(ended())
    raw = called.with_raw_response.create(stream=True, **OF_OPENAI)
    assert list(raw.parse())
    assert "gen_ai.input.messages" in (ended().attributes or {})


def test_calls_of_an_asynchronous_client_are_recorded(
    model: ModelSimulator, provider: tuple[TracerProvider, Ended], clients: dict[str, Any]
) -> None:
    _, ended = provider

    async def call() -> None:
        async with openai.AsyncOpenAI(base_url=f"{model.url}/v1", api_key="k") as client:
            called = clients["AsyncCompletions"](client)
            assert (await called.create(**OF_OPENAI)).choices[0].message.content == ANSWER
            check(ended())
            parts = [one async for one in await called.create(stream=True, **OF_OPENAI)]
            assert len(parts) > 1
            check(ended())
        async with anthropic.AsyncAnthropic(base_url=model.url, api_key="k") as client_:
            called = clients["AsyncMessages"](client_)
            assert (await called.create(**OF_ANTHROPIC)).content[0].text == ANSWER
            check(ended())
            async with called.stream(**OF_ANTHROPIC) as stream:
                assert await stream.get_final_text() == ANSWER
            check(ended())

    asyncio.run(call())


def test_a_stream_of_anthropic_is_recorded_as_far_as_it_was_read(
    model: ModelSimulator, provider: tuple[TracerProvider, Ended], clients: dict[str, Any]
) -> None:
    _, ended = provider
    called = clients["Messages"](anthropic.Anthropic(base_url=model.url, api_key="k"))
    assert list(called.create(stream=True, **OF_ANTHROPIC))[-1].type == "message_stop"
    span = ended()
    check(span)
    check_tokens(span)
    with called.stream(**OF_ANTHROPIC) as stream:
        assert "".join(stream.text_stream) == ANSWER
    check(ended())
    assert "ratchet.broken_off" not in (span.attributes or {})
    with called.stream(**OF_ANTHROPIC) as stream:
        first = next(iter(stream.text_stream))
    span = ended()
    check(span, first)
    assert (span.attributes or {})["ratchet.broken_off"] is True


def test_a_manager_of_another_kind_of_stream_works_as_before(
    provider: tuple[TracerProvider, Ended],
) -> None:
    made, ended = provider

    class Manager:
        def __enter__(self) -> str:
            return "no stream"

        def __exit__(self, *error: object) -> None:
            return None

    def stream(**given: Any) -> Manager:
        return Manager()

    recorded = client_calls._recorded(stream, made.get_tracer("t"), "theirs", messages)
    with recorded(**OF_ANTHROPIC) as entered:
        assert entered == "no stream"
    assert ended().name == "chat claude-3"


def test_a_call_that_fails_is_a_failed_span_and_the_clients_own_error(
    model: ModelSimulator, provider: tuple[TracerProvider, Ended], clients: dict[str, Any]
) -> None:
    _, ended = provider
    refused = httpx.MockTransport(lambda request: httpx.Response(401, json={"error": "no key"}))
    client = openai.OpenAI(api_key="k", http_client=httpx.Client(transport=refused))
    with pytest.raises(openai.AuthenticationError):
        clients["Completions"](client).create(**OF_OPENAI)
    span = ended()
    assert not span.status.is_ok
    assert "AuthenticationError" in str(span.status.description)
    with pytest.raises(TypeError, match="messages"):
        clients["Completions"](client).create(model="m")
    assert not ended().status.is_ok


@pytest.mark.parametrize(
    ("error", "is_unknown"),
    [(httpx.ReadTimeout("slow"), True), (httpx.ConnectTimeout("away"), False)],
)
def test_a_call_that_timed_out_has_broken_off_unless_nobody_was_reached(
    provider: tuple[TracerProvider, Ended],
    clients: dict[str, Any],
    error: Exception,
    is_unknown: bool,
) -> None:
    _, ended = provider

    def fail(request: httpx.Request) -> httpx.Response:
        raise error

    http_client = httpx.Client(transport=httpx.MockTransport(fail))
    client = openai.OpenAI(api_key="k", max_retries=0, http_client=http_client)
    with pytest.raises(openai.APITimeoutError):
        clients["Completions"](client).create(**OF_OPENAI)
    span = ended()
    assert not span.status.is_ok
    assert (span.attributes or {}).get("ratchet.broken_off", False) is is_unknown


def test_what_cannot_be_recorded_reaches_the_client_unread(
    provider: tuple[TracerProvider, Ended],
) -> None:
    got: list[Any] = []
    made, ended = provider

    def create(**given: Any) -> dict[str, Any]:
        got.append(list(given["messages"]))
        assert get_current_span().get_span_context().is_valid
        return {"choices": "none"}

    class Odd:
        def model_dump(self, **given: Any) -> Any:
            raise RuntimeError("no")

    recorded = client_calls._recorded(create, made.get_tracer("t"), "theirs", chat)
    unread = iter([{"role": "user", "content": "Hello"}])
    assert recorded(messages=unread, model=Odd(), deep=[[[[]]]]) == {"choices": "none"}
    assert got == [[{"role": "user", "content": "Hello"}]]
    assert ended().status.is_unset
