"""Official clients of one provider that talk to the other's API through the gateway."""

from __future__ import annotations

import json
import queue
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import openai
import pytest

from ratchet.server.gateway import Upstream
from ratchet.server.gateway.substitution import PromptSubstituter
from ratchet.store import Store
from ratchet.types import Activation, AgentSettings, Candidate, Model, Rollout
from tests.server.gateway.conftest import Site
from tests.server.gateway.other_providers import (
    Anthropic,
    OpenAI,
    call,
    completion,
    message,
    message_events,
    text,
    use,
)
from tests.server.gateway.upstreams import Seen, StubUpstream, Wire, chunk, event, stream_head

CLAUDE, GPT = "claude-haiku-4-5", "gpt-4o-mini"

WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
CHAT_TOOL: Any = {
    "type": "function",
    "function": {"name": "weather", "description": "Weather of a city", "parameters": WEATHER},
}
PIXEL = "iVBORw0KGgo="


@pytest.fixture
def claude(upstream: StubUpstream) -> Iterator[Anthropic]:
    """Anthropic's API; fails at the end if a request was none of its."""
    made = Anthropic(upstream, [], limits={CLAUDE: 64_000})
    yield made
    assert made.faults == []


@pytest.fixture
def gpt(upstream: StubUpstream) -> Iterator[OpenAI]:
    """OpenAI's API, in the same way."""
    made = OpenAI(upstream, [])
    yield made
    assert made.faults == []


@pytest.fixture
def to_claude(open_site: Callable[..., Site], upstream: StubUpstream) -> Site:
    """A gateway that sends all models to Anthropic's API."""
    return open_site(claude_upstream(upstream), environ={"CLAUDE_KEY": "sk-ant"})


def claude_upstream(upstream: StubUpstream) -> Upstream:
    return Upstream(
        name="claude",
        dialect="anthropic",
        base_url=upstream.url,
        key_env="CLAUDE_KEY",
        models={"*": "*"},
    )


@pytest.fixture
def to_gpt(open_site: Callable[..., Site], upstream: StubUpstream) -> Site:
    """A gateway that sends all models to OpenAI's API."""
    return open_site(
        Upstream(
            name="gpt",
            dialect="openai",
            base_url=upstream.url,
            key_env="GPT_KEY",
            models={"claude-*": GPT},
        ),
        environ={"GPT_KEY": "sk-gpt"},
    )


def openai_client(site: Site) -> openai.OpenAI:
    return openai.OpenAI(
        base_url=site.url("agent"), api_key="sk-of-the-client", max_retries=0, organization="org-1"
    )


def anthropic_client(site: Site) -> anthropic.Anthropic:
    return anthropic.Anthropic(
        base_url=site.url("agent", "anthropic"), api_key="sk-of-the-client", max_retries=0
    )


def ask(client: openai.OpenAI, **more: Any) -> Any:
    said: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}], **more}
    return client.chat.completions.create(model=CLAUDE, **said)


# --- OpenAI's clients, Anthropic's API ----------------------------------------------------------


def test_a_chat_completion_is_answered_and_recorded(to_claude: Site, claude: Anthropic) -> None:
    claude.answers = [message(text("Hi!"))]
    answer = ask(
        openai_client(to_claude),
        messages=[
            {"role": "system", "content": "Be short."},
            {"role": "user", "content": "Hello"},
        ],
        stop=["END"],
        seed=1,
        user="u-1",
    )
    assert answer.choices[0].message.content == "Hi!"
    assert answer.choices[0].finish_reason == "stop"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (15, 5)
    assert answer.usage.prompt_tokens_details.cached_tokens == 2
    assert answer.usage.completion_tokens_details.reasoning_tokens == 1
    assert claude.requests == [
        {
            "model": CLAUDE,
            "system": [{"type": "text", "text": "Be short."}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
            "stop_sequences": ["END"],
            "max_tokens": 64_000,
        }
    ]
    sent = claude.stub.seen[-1]
    assert sent.target == "/v1/messages"
    assert sent.header("x-api-key") == "sk-ant"
    assert sent.header("anthropic-version")
    for own in (b"sk-of-the-client", b"org-1", b"stainless"):
        assert own not in sent.raw.lower()
    span = to_claude.span()
    assert span.attributes["gen_ai.provider.name"] == "anthropic"
    assert span.attributes["gen_ai.request.model"] == CLAUDE
    assert span.attributes["gen_ai.response.model"] == CLAUDE
    assert span.attributes["gen_ai.usage.input_tokens"] == 15
    assert span.attributes["gen_ai.usage.cache_read.input_tokens"] == 2
    assert span.attributes["gen_ai.usage.cache_creation.input_tokens"] == 3
    assert span.attributes["ratchet.translation.left_out"] == ["seed", "user"]
    assert span.attributes["ratchet.translation.max_tokens"] == 64_000
    # 1, 0.1 read, 1.25 written and 5 dollars for a million tokens.
    assert span.attributes["ratchet.cost_usd"] == pytest.approx(
        10e-6 + 2 * 0.1e-6 + 3 * 1.25e-6 + 5 * 5e-6
    )


def test_without_a_key_of_its_own_the_upstream_is_not_called(
    open_site: Callable[..., Site], claude: Anthropic, upstream: StubUpstream
) -> None:
    site = open_site(claude_upstream(upstream))
    with pytest.raises(openai.AuthenticationError, match="Set CLAUDE_KEY where Ratchet is started"):
        ask(openai_client(site))
    assert upstream.seen == []


def test_a_loop_with_parallel_tools_streamed_and_whole(to_claude: Site, claude: Anthropic) -> None:
    blocks = [
        text("Ich schaue nach: ☔"),
        use("toolu_1", "weather", {"city": "Zürich"}),
        use("toolu_2", "weather", {"city": "Oslo"}),
        use("toolu_3", "now", {}),
    ]
    claude.answers = [message(*blocks, stop_reason="tool_use"), message(text("Rain in both."))]
    client = openai_client(to_claude)
    messages: list[Any] = [{"role": "user", "content": "Weather?"}]
    options: dict[str, Any] = {"model": CLAUDE, "tools": [CHAT_TOOL], "max_tokens": 50}
    with client.chat.completions.stream(
        messages=messages,
        tool_choice="required",
        stream_options={"include_usage": True},
        **options,
    ) as stream:
        for _ in stream:
            pass
        first: Any = stream.get_final_completion()
    choice = first.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert (first.usage.prompt_tokens, first.usage.completion_tokens) == (15, 5)
    messages.append(choice.message)
    for called in choice.message.tool_calls:
        city = json.loads(called.function.arguments).get("city", "now")
        messages.append({"role": "tool", "tool_call_id": called.id, "content": f"{city}: rain"})
    last = client.chat.completions.create(messages=messages, parallel_tool_calls=False, **options)
    assert last.choices[0].message.content == "Rain in both."
    assert claude.requests[0]["tool_choice"] == {"type": "any"}
    second = claude.requests[1]
    assert second["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    results = [
        {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": f"{said}: rain"}
        for number, said in enumerate(("Zürich", "Oslo", "now"), start=1)
    ]
    assert second["messages"][1:] == [
        {"role": "assistant", "content": blocks},
        {"role": "user", "content": results},
    ]
    for span in to_claude.spans(2):
        assert span.status == "ok"
        assert span.attributes["gen_ai.usage.input_tokens"] == 15
        assert "ratchet.broken_off" not in span.attributes


def test_images_and_documents(to_claude: Site, claude: Anthropic) -> None:
    claude.answers = [message(text("A dot."))]
    urls = (f"data:image/png;base64,{PIXEL}", "https://example.org/a.png")
    pdf = {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}
    content: list[Any] = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    content.append({"type": "file", "file": pdf})
    ask(
        openai_client(to_claude),
        max_tokens=50,
        messages=[{"role": "user", "content": [text("What is it?"), *content]}],
    )
    image = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    document = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
    assert claude.requests[0]["messages"][0]["content"][1:] == [
        {"type": "image", "source": image},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        {"type": "document", "source": document, "title": "a.pdf"},
    ]


def test_all_that_has_no_equivalent_is_named_at_once(to_claude: Site, claude: Anthropic) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        ask(
            openai_client(to_claude),
            n=2,
            logprobs=True,
            frequency_penalty=0.5,
            response_format={"type": "json_object"},
            extra_body={"guided_regex": "a+"},
        )
    told = str(raised.value)
    assert "Anthropic's API, which has no equivalent for" in told
    for feature in ("n=2", "logprobs", "frequency_penalty=0.5", "json_object", "guided_regex"):
        assert feature in told
    assert claude.requests == []


def test_a_setting_that_the_model_refuses_is_left_out(to_claude: Site, claude: Anthropic) -> None:
    told = "`temperature` is deprecated for this model."
    refusal = {"type": "error", "error": {"type": "invalid_request_error", "message": told}}
    claude.answers = [(400, refusal, {}), message(text("Hi!")), message(text("Hi again!"))]
    client = openai_client(to_claude)
    assert ask(client, temperature=0, max_tokens=5).choices[0].message.content == "Hi!"
    assert ask(client, temperature=0, max_tokens=5).choices[0].message.content == "Hi again!"
    assert ["temperature" in request for request in claude.requests] == [True, False, False]
    first, second = to_claude.spans(2)
    assert first.status == "ok"
    assert first.attributes["ratchet.translation.left_out"] == ["temperature"]
    assert second.attributes["ratchet.translation.left_out"] == ["temperature"]


@pytest.mark.parametrize(
    ("status", "kind", "raised"),
    [
        (400, "invalid_request_error", openai.BadRequestError),
        (401, "authentication_error", openai.AuthenticationError),
        (429, "rate_limit_error", openai.RateLimitError),
        (529, "overloaded_error", openai.InternalServerError),
    ],
)
def test_an_error_of_anthropics_is_one_of_openais(
    to_claude: Site, claude: Anthropic, status: int, kind: str, raised: type[openai.APIStatusError]
) -> None:
    body = {"type": "error", "error": {"type": kind, "message": "Not now."}, "request_id": "r"}
    claude.answers = [(status, body, {"retry_after": "7"})]
    with pytest.raises(raised, match=r"Not now\.") as caught:
        ask(openai_client(to_claude), max_tokens=5)
    assert caught.value.status_code == status
    assert caught.value.type == kind
    assert caught.value.response.headers["retry-after"] == "7"
    span = to_claude.span()
    assert (span.status, span.message) == ("error", "Not now.")
    assert span.attributes["error.type"] == kind


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b'{"content": 1}'])
def test_an_answer_that_is_none_is_a_failure_of_the_upstream(
    to_claude: Site, claude: Anthropic, body: bytes
) -> None:
    claude.answers = [(200, body, {})]
    with pytest.raises(openai.InternalServerError, match="cannot be translated") as raised:
        ask(openai_client(to_claude), max_tokens=5)
    assert raised.value.status_code == 502
    assert to_claude.span().attributes["error.type"] == "invalid_response"


@pytest.mark.parametrize(
    ("then", "told"),
    [
        ({"type": "content_block_start", "index": 0, "content_block": text("Hi")}, "ended its"),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}, "Busy"),
    ],
)
def test_a_stream_that_ends_early_or_has_an_error_within_is_told(
    to_claude: Site, upstream: StubUpstream, then: dict[str, Any], told: str
) -> None:
    upstream.streams([event({"type": "message_start", "message": message()}), event(then)])
    with pytest.raises(openai.APIError, match=told):
        list(ask(openai_client(to_claude), max_tokens=5, stream=True))
    span = to_claude.span()
    assert span.status == "error"
    if then["type"] == "error":
        assert span.attributes["error.type"] == "overloaded_error"


def test_pieces_of_a_stream_arrive_one_by_one(to_claude: Site, upstream: StubUpstream) -> None:
    whole = message(text("Once upon a time"))
    events = [event(told, str(told["type"])) for told in message_events(whole)]
    read: queue.Queue[None] = queue.Queue()

    def script(seen: Seen, wire: Wire) -> None:
        wire.send(stream_head())
        for piece in events:
            wire.send(chunk(piece))
            if b"text_delta" in piece:
                read.get(timeout=10)  # the client has what was sent
        wire.send(chunk(b""))

    upstream.script = script
    got = []
    for told in ask(openai_client(to_claude), max_tokens=5, stream=True):
        if told.choices[0].delta.content:
            got.append(told.choices[0].delta.content)
            read.put(None)
    assert got == ["Once", " upo", "n a ", "time"]


# --- OpenAI's responses -------------------------------------------------------------------------


def test_a_loop_of_responses_with_tools_and_thoughts(to_claude: Site, claude: Anthropic) -> None:
    claude.answers = [
        message(
            {"type": "thinking", "thinking": "Two cities.", "signature": "c2ln"},
            text("I look."),
            use("toolu_1", "weather", {"city": "Zürich"}),
            use("toolu_2", "weather", {"city": "Oslo"}),
            stop_reason="tool_use",
        ),
        message(text("Rain in both.")),
    ]
    client = openai_client(to_claude)
    tools: Any = [{"type": "function", "name": "weather", "parameters": WEATHER, "strict": True}]
    given: list[Any] = [{"role": "user", "content": "Weather?"}]
    options: dict[str, Any] = {
        "model": CLAUDE,
        "instructions": "Be short.",
        "tools": tools,
        "reasoning": {"effort": "low", "summary": "auto"},
        "max_output_tokens": 900,
    }
    first = client.responses.create(input=given, **options)
    assert [item.type for item in first.output] == [
        *("reasoning", "message", "function_call", "function_call"),
    ]
    assert first.output_text == "I look."
    assert first.status == "completed"
    assert first.usage is not None
    assert first.usage.input_tokens_details.cached_tokens == 2
    assert first.usage.output_tokens_details.reasoning_tokens == 1
    given += first.output
    for item in first.output:
        if item.type == "function_call":
            city = json.loads(item.arguments)["city"]
            output = {"type": "function_call_output", "call_id": item.call_id, "output": city}
            given.append(output)
    last = client.responses.create(input=given, tool_choice="none", **options)
    assert last.output_text == "Rain in both."
    assert claude.requests[0]["thinking"] == {"type": "adaptive", "display": "summarized"}
    second = claude.requests[1]
    assert second["max_tokens"] == 900
    assert second["tools"][0]["strict"] is True
    assert second["tool_choice"] == {"type": "none"}
    assert second["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "Two cities.", "signature": "c2ln"},
        {"type": "text", "text": "I look."},
        use("toolu_1", "weather", {"city": "Zürich"}),
        use("toolu_2", "weather", {"city": "Oslo"}),
    ]
    assert [block["content"] for block in second["messages"][2]["content"]] == ["Zürich", "Oslo"]


def test_state_and_tools_of_openais_are_refused(to_claude: Site, claude: Anthropic) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        openai_client(to_claude).responses.create(
            model=CLAUDE,
            input="Go on",
            previous_response_id="resp_1",
            tools=[{"type": "web_search"}],
            truncation="auto",
        )
    for feature in ("previous_response_id", "web_search", "truncation=auto", "in `input`"):
        assert feature in str(raised.value)
    assert claude.requests == []


# --- Anthropic's clients, OpenAI's API ----------------------------------------------------------


def tell(client: anthropic.Anthropic, **more: Any) -> Any:
    said: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}], **more}
    return client.messages.create(model=CLAUDE, max_tokens=50, **said)


def test_a_message_is_answered_and_recorded(to_gpt: Site, gpt: OpenAI) -> None:
    gpt.answers = [completion("Hi!")]
    answer = tell(
        anthropic_client(to_gpt),
        system=[{**text("Be short."), "cache_control": {"type": "ephemeral"}}, text("Be kind.")],
        stop_sequences=["END"],
        metadata={"user_id": "u-1"},
        tool_choice={"type": "auto"},
    )
    assert answer.content[0].text == "Hi!"
    assert answer.stop_reason == "end_turn"
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (10, 5)
    assert answer.usage.cache_read_input_tokens == 2
    assert gpt.requests == [
        {
            "model": GPT,
            "messages": [
                {"role": "system", "content": [text("Be short."), text("Be kind.")]},
                {"role": "user", "content": "Hello"},
            ],
            "max_tokens": 50,
            "stop": ["END"],
        }
    ]
    sent = gpt.stub.seen[0]
    assert sent.target == "/v1/chat/completions"
    assert sent.header("authorization") == "Bearer sk-gpt"
    assert b"sk-of-the-client" not in sent.raw
    assert b"anthropic-version" not in sent.raw
    span = to_gpt.span()
    assert span.attributes["gen_ai.provider.name"] == "openai"
    assert span.attributes["gen_ai.request.model"] == GPT
    assert span.attributes["ratchet.asked_model"] == CLAUDE
    assert span.attributes["gen_ai.usage.input_tokens"] == 15
    assert span.attributes["ratchet.translation.left_out"] == ["metadata", "cache_control"]


def test_a_streamed_loop_of_messages_with_parallel_tools(to_gpt: Site, gpt: OpenAI) -> None:
    gpt.answers = [
        completion(
            "Ich schaue: ☔",
            call("call_1", "weather", '{"city": "Zürich"}'),
            call("call_2", "weather", '{"city": "Oslo"}'),
            reason="tool_calls",
        ),
        completion("Rain in both."),
    ]
    client = anthropic_client(to_gpt)
    messages: list[Any] = [{"role": "user", "content": "Weather?"}]
    tools: Any = [{"name": "weather", "input_schema": WEATHER, "strict": True}]
    options: dict[str, Any] = {"model": CLAUDE, "max_tokens": 50, "tools": tools}
    with client.messages.stream(messages=messages, **options) as stream:
        assert "".join(stream.text_stream) == "Ich schaue: ☔"
        first = stream.get_final_message()
    assert first.stop_reason == "tool_use"
    assert (first.usage.input_tokens, first.usage.output_tokens) == (10, 5)
    messages.append({"role": "assistant", "content": first.content})
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": f"{block.input['city']}: rain"}
        for block in first.content
        if block.type == "tool_use"
    ]
    messages.append({"role": "user", "content": [*results, {"type": "text", "text": "So?"}]})
    choice: Any = {"type": "any", "disable_parallel_tool_use": True}
    with client.messages.stream(messages=messages, tool_choice=choice, **options) as stream:
        last = stream.get_final_message()
    assert last.content[0].type == "text"
    assert last.content[0].text == "Rain in both."
    second = gpt.requests[1]
    assert second["stream_options"] == {"include_usage": True}
    assert second["tool_choice"] == "required"
    assert second["parallel_tool_calls"] is False
    assert second["tools"][0]["function"]["strict"] is True
    said = second["messages"][1:]
    assert said[0]["content"] == "Ich schaue: ☔"
    assert [json.loads(told["function"]["arguments"]) for told in said[0]["tool_calls"]] == [
        {"city": "Zürich"},
        {"city": "Oslo"},
    ]
    assert said[1:] == [
        {"role": "tool", "tool_call_id": "call_1", "content": "Zürich: rain"},
        {"role": "tool", "tool_call_id": "call_2", "content": "Oslo: rain"},
        {"role": "user", "content": "So?"},
    ]
    assert [span.status for span in to_gpt.spans(2)] == ["ok", "ok"]


def test_what_openai_lacks_is_named_at_once(to_gpt: Site, gpt: OpenAI) -> None:
    image = {"type": "image", "source": {"type": "file", "file_id": "file_1"}}
    with pytest.raises(anthropic.BadRequestError) as raised:
        tell(
            anthropic_client(to_gpt),
            tools=[{"type": "web_search_20250305", "name": "web_search"}],
            messages=[
                {"role": "user", "content": [image, text("What is it?")]},
                {"role": "assistant", "content": "It is"},
            ],
            stop_sequences=list("abcde"),
            extra_body={"top_k": 3},
        )
    told = str(raised.value)
    assert "OpenAI's API, which has no equivalent for" in told
    for feature in ("web_search_20250305", "image by file", "last message", "5 stop", "top_k=3"):
        assert feature in told
    assert gpt.requests == []


@pytest.mark.parametrize(
    ("status", "raised", "kind"),
    [
        (429, anthropic.RateLimitError, "rate_limit_error"),
        (503, anthropic.InternalServerError, "overloaded_error"),
        (404, anthropic.NotFoundError, "not_found_error"),
    ],
)
def test_an_error_of_openais_is_one_of_anthropics(
    to_gpt: Site, gpt: OpenAI, status: int, raised: type[anthropic.APIStatusError], kind: str
) -> None:
    body = {"error": {"message": "Not now.", "type": "x", "param": None, "code": "y"}}
    gpt.answers = [(status, body, {"retry_after": "7"})]
    with pytest.raises(raised, match=r"Not now\.") as caught:
        tell(anthropic_client(to_gpt))
    assert caught.value.status_code == status
    assert caught.value.response.json()["error"]["type"] == kind
    assert caught.value.response.headers["retry-after"] == "7"


def test_a_stream_that_is_cut_aborts_the_clients(to_gpt: Site, upstream: StubUpstream) -> None:
    choice = {"index": 0, "delta": {"role": "assistant", "content": "Hi"}, "finish_reason": None}
    begun = event({"id": "c", "model": "m", "choices": [choice]})
    upstream.sends(stream_head(), chunk(begun))
    with (
        pytest.raises(Exception, match="incomplete chunked read"),
        anthropic_client(to_gpt).messages.stream(
            model=CLAUDE, max_tokens=5, messages=[{"role": "user", "content": "Hi"}]
        ) as stream,
    ):
        stream.get_final_message()
    assert to_gpt.span().attributes["error.type"] == "upstream_disconnected"


# --- A candidate with a model of another provider -------------------------------------------------


@pytest.fixture
def moved(disk: Store) -> Candidate:
    """What is active for the agent: a candidate with Claude in place of its own model."""
    own = Candidate.of({"bot.model": Model(GPT, in_calls=GPT)})
    to = Candidate.of({"bot.model": Model(CLAUDE, in_calls=GPT)}, parents=(own.id,))
    for candidate in (own, to):
        disk.candidates.put(candidate)
    disk.agents.put(AgentSettings(name="agent", substitute=True), 1.0)
    disk.agents.activate(Activation(agent="agent", candidate_id=to.id, activated_at=2.0))
    return to


@pytest.fixture
def both_providers(
    open_site: Callable[..., Site], disk: Store, upstream: StubUpstream
) -> Iterator[tuple[Site, StubUpstream]]:
    """A gateway before both providers, with the agent's own one beside the one of `upstream`."""
    own = StubUpstream()
    named = {"claude-*": "claude-*"}
    site = open_site(
        Upstream(name="gpt", dialect="openai", base_url=own.url),
        Upstream(name="claude", dialect="anthropic", base_url=upstream.url, models=named),
        substitute=PromptSubstituter(disk),
    )
    yield site, own
    own.close()


@pytest.mark.usefixtures("moved")
def test_a_live_agent_gets_the_model_of_another_provider(
    both_providers: tuple[Site, StubUpstream], claude: Anthropic
) -> None:
    site, own = both_providers
    claude.answers = [message(text("Hi!"))]
    answer = openai_client(site).chat.completions.create(
        model=GPT, messages=[{"role": "user", "content": "Hello"}]
    )
    assert answer.choices[0].message.content == "Hi!"
    assert answer.model == CLAUDE
    assert own.seen == []
    span = site.span()
    assert span.attributes["gen_ai.provider.name"] == "anthropic"
    assert span.attributes["gen_ai.request.model"] == CLAUDE


@pytest.mark.usefixtures("moved")
def test_a_live_call_that_cannot_be_translated_is_sent_as_it_came(
    both_providers: tuple[Site, StubUpstream], claude: Anthropic
) -> None:
    site, own = both_providers
    own.answers(completion("Hi!"))
    openai_client(site).chat.completions.create(
        model=GPT, messages=[{"role": "user", "content": "Hello"}], n=2
    )
    assert own.seen[0].json["model"] == GPT
    assert claude.requests == []
    span = site.span()
    assert "no equivalent for: n=2" in span.attributes["ratchet.substitution.error"]


def test_an_attempts_call_that_cannot_be_translated_is_refused(
    both_providers: tuple[Site, StubUpstream], moved: Candidate, disk: Store, claude: Anthropic
) -> None:
    site, own = both_providers
    rollout = Rollout(id="r1", queue="agent", candidate_id=moved.id, task_id="t", input="?")
    disk.rollouts.create([rollout], 1.0)
    client = openai.OpenAI(base_url=site.url("r1@1"), api_key="x", max_retries=0)
    messages: Any = [{"role": "user", "content": "Hello"}]
    with pytest.raises(openai.BadRequestError, match="no equivalent for: n=2"):
        client.chat.completions.create(model=GPT, messages=messages, n=2)
    assert own.seen == []
    claude.answers = [message(text("Hi!"))]
    answer = client.chat.completions.create(model=GPT, messages=messages)
    assert answer.choices[0].message.content == "Hi!"


def test_a_client_that_calls_its_provider_by_itself_gets_another_providers_model(
    open_site: Callable[..., Site], claude: Anthropic, upstream: StubUpstream
) -> None:
    site = open_site(
        Upstream(name="claude", dialect="anthropic", base_url=upstream.url),
        hosts=["api.openai.com"],
    )
    claude.answers = [message(text("Hi!"))]
    client = openai.OpenAI(
        base_url=site.url("agent"),
        api_key="sk-of-the-client",
        max_retries=0,
        default_headers={"x-ratchet-upstream": "https://api.openai.com/v1"},
    )
    assert ask(client, max_tokens=5).choices[0].message.content == "Hi!"
    assert b"sk-of-the-client" not in upstream.seen[0].raw


def test_token_counts_are_not_translated(to_gpt: Site, gpt: OpenAI) -> None:
    with pytest.raises(anthropic.NotFoundError, match="No upstream has the dialect"):
        anthropic_client(to_gpt).messages.count_tokens(
            model=CLAUDE, messages=[{"role": "user", "content": "Hi"}]
        )
    assert gpt.requests == []
