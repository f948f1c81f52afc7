"""The coach against a real HTTP server that answers well, badly, late, or not at all."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from ratchet.llm import Coach, CoachModel, CoachSettings, CoachUnavailable, Message, Reply
from ratchet.llm.hosted_model import HOSTED_MODEL
from ratchet.types import ConfigError
from tests.llm.endpoint import CUT, ENDLESS, HANG, Endpoint, Reaction, Request, answer, error

HELLO = [Message("system", "You coach."), Message("user", "What is wrong?")]
SCHEMA = {
    "type": "object",
    "properties": {"advice": {"type": "string"}},
    "required": ["advice"],
    "additionalProperties": False,
}
GOOD = '{"advice": "state the rule"}'
KEY = "sk-test-0123456789abcdefghijklmnopqrstuv"


class Time:
    """A clock that stands but for what is waited for, which takes no time."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waits: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


Reactions = Callable[[Request], Reaction] | list[Reaction]


@pytest.fixture
def serve() -> Iterator[Callable[[Reactions], Endpoint]]:
    opened: list[Endpoint] = []

    def start(reactions: Reactions) -> Endpoint:
        if isinstance(reactions, list):
            left = iter(reactions)
            endpoint = Endpoint(lambda _: next(left))
        else:
            endpoint = Endpoint(reactions)
        opened.append(endpoint)
        return endpoint.__enter__()

    yield start
    for endpoint in opened:
        endpoint.__exit__()


Serve = Callable[[Reactions], Endpoint]


def ask(
    endpoint: Endpoint | str,
    *,
    times: int = 1,
    together: bool = False,
    coach: dict[str, Any] | None = None,
    at: Time | None = None,
    settings: dict[str, Any] | None = None,
    environ: dict[str, str] | None = None,
    **options: Any,
) -> list[Reply]:
    """Ask a coach of one model so often."""
    at = at or Time()
    made: dict[str, Any] = {
        "base_url": endpoint if isinstance(endpoint, str) else endpoint.url,
        "environ": {"OPENAI_API_KEY": KEY} if environ is None else environ,
        "settings": CoachSettings(**(settings or {})),
        "sleep": at.sleep,
        "clock": at.clock,
        "rng": random.Random(0),
        **(coach or {}),
    }
    models = made.pop("models", "gpt-4o-mini")

    async def work() -> list[Reply]:
        async with Coach(models, **made) as asked:
            if together:
                return await asyncio.gather(*(asked.ask(HELLO, **options) for _ in range(times)))
            return [await asked.ask(HELLO, **options) for _ in range(times)]

    return asyncio.run(work())


def test_an_answer_comes_with_its_tokens_and_dollars(serve: Serve) -> None:
    endpoint = serve([answer("Be brief.")])
    (reply,) = ask(endpoint, coach={"clock": time.monotonic})
    assert (reply.text, reply.problem, reply.model) == ("Be brief.", "", "gpt-4o-mini")
    assert (reply.input_tokens, reply.output_tokens, reply.requests) == (100, 10, 1)
    assert reply.cost_usd == pytest.approx((100 * 0.15 + 10 * 0.6) / 1e6)
    assert reply.seconds > 0
    (request,) = endpoint.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body["messages"] == [
        {"role": "system", "content": "You coach."},
        {"role": "user", "content": "What is wrong?"},
    ]


def test_an_answer_by_schema(serve: Serve) -> None:
    endpoint = serve([answer(GOOD)])
    (reply,) = ask(endpoint, schema=SCHEMA, temperature=0.3, max_tokens=99)
    assert reply.data == {"advice": "state the rule"}
    form = endpoint.requests[0].body["response_format"]
    assert form["type"] == "json_schema"
    assert form["json_schema"]["schema"] == SCHEMA
    assert form["json_schema"]["strict"] is True
    assert endpoint.requests[0].body["temperature"] == 0.3
    assert endpoint.requests[0].body["max_tokens"] == 99


def test_what_an_endpoint_does_not_take_is_learned_once(serve: Serve) -> None:
    def react(request: Request) -> Reaction:
        body = request.body
        if body.get("response_format", {}).get("type") == "json_schema":
            return error(400, "Invalid parameter: 'response_format' of type 'json_schema'.")
        if "response_format" in body:
            return error(400, "response_format is not supported")
        if "max_tokens" in body:
            return error(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'.")
        if "temperature" in body:
            return error(400, "Unsupported value: 'temperature' does not support 0.3.")
        return answer(GOOD)

    endpoint = serve(react)
    replies = ask(endpoint, times=3, schema=SCHEMA, temperature=0.3)
    assert [reply.data for reply in replies] == [{"advice": "state the rule"}] * 3
    assert len(endpoint.requests) == 4 + 1 + 1 + 1
    last = endpoint.requests[-1].body
    assert "JSON schema" in last["messages"][-1]["content"]
    assert last["max_completion_tokens"] == 16_000
    assert replies[0].requests == 1  # what was refused costs nothing


@pytest.mark.parametrize(
    "model", ["gpt-5-mini", HOSTED_MODEL, "openai/gpt-10-mini", "o3", "openai/o4-mini"]
)
def test_models_that_reason_are_asked_in_their_way_at_once(serve: Serve, model: str) -> None:
    endpoint = serve([answer("Yes.")])
    ask(endpoint, coach={"models": model})
    assert "max_completion_tokens" in endpoint.requests[0].body


def test_a_bare_400_drops_the_response_format_only(serve: Serve) -> None:
    def react(request: Request) -> Reaction:
        if "response_format" in request.body:
            return Reaction(status=400, body=b"Bad Request")
        return answer(GOOD)

    endpoint = serve(react)
    (reply,) = ask(endpoint, schema=SCHEMA)
    assert reply.data == {"advice": "state the rule"}
    assert "max_tokens" in endpoint.requests[-1].body


MALFORMED = [
    "I would state the rule.",
    '{"advice": 3}',
    '{"tip": "state the rule"}',
    '{"advice": "state',
    "Ich würde die Regel nennen.",
    "",
]


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_answer_is_repaired_once(serve: Serve, text: str) -> None:
    endpoint = serve([answer(text), answer(GOOD)])
    (reply,) = ask(endpoint, schema=SCHEMA)
    assert reply.data == {"advice": "state the rule"}
    assert reply.problem == ""
    assert reply.requests == 2
    assert reply.input_tokens == 200
    assert reply.cost_usd == pytest.approx(2 * (100 * 0.15 + 10 * 0.6) / 1e6)
    sent = endpoint.requests[1].body["messages"]
    assert sent[:2] == endpoint.requests[0].body["messages"]
    if text:
        assert sent[2] == {"role": "assistant", "content": text}
        assert "not the answer that was asked for" in sent[3]["content"]
        assert "JSON schema" in sent[3]["content"]  # the endpoint did not hold the model to it


@pytest.mark.parametrize("text", MALFORMED)
def test_an_answer_that_stays_malformed_is_a_problem(serve: Serve, text: str) -> None:
    endpoint = serve([answer(text), answer(text)])
    (reply,) = ask(endpoint, schema=SCHEMA)
    assert reply.data is None
    assert "does not fit its schema" in reply.problem or "was empty" in reply.problem
    assert len(endpoint.requests) == 2


def test_what_was_paid_for_is_kept_when_the_repair_fails(serve: Serve) -> None:
    endpoint = serve([answer("No JSON."), error(401, "expired")])
    (reply,) = ask(endpoint, schema=SCHEMA)
    assert "does not fit its schema" in reply.problem
    assert (reply.text, reply.requests) == ("No JSON.", 1)


@pytest.mark.parametrize(
    "refusing",
    [
        answer(None, refusal="I cannot do that."),
        answer(None, finish="content_filter"),
        answer("I'm sorry, but I can't help with that."),
        answer("I cannot assist with this request."),
    ],
)
@pytest.mark.parametrize("schema", [None, SCHEMA])
def test_a_refusal_is_a_problem_and_is_not_asked_again(
    serve: Serve, refusing: Reaction, schema: Any
) -> None:
    endpoint = serve([refusing])
    (reply,) = ask(endpoint, schema=schema)
    assert reply.problem.startswith("The model refused: ")
    assert reply.data is None
    assert len(endpoint.requests) == 1


def test_a_cut_answer_is_a_problem(serve: Serve) -> None:
    (reply,) = ask(serve([answer("Once upon a", finish="length")]), max_tokens=3)
    assert reply.problem == "The answer was cut off at the limit of 3 tokens."
    assert reply.text == "Once upon a"


def test_a_cut_answer_by_schema_is_asked_for_more_briefly(serve: Serve) -> None:
    endpoint = serve([answer('{"advice": "sta', finish="length"), answer(GOOD)])
    (reply,) = ask(endpoint, schema=SCHEMA)
    assert reply.data == {"advice": "state the rule"}
    assert "briefly" in endpoint.requests[1].body["messages"][-1]["content"]


def test_a_usage_that_is_missing_is_estimated_and_said(serve: Serve) -> None:
    said: list[str] = []
    (reply,) = ask(serve([answer("x" * 400, usage={})]), coach={"notify": said.append})
    assert (reply.input_tokens, reply.output_tokens) == (6, 100)
    assert reply.cost_usd > 0
    assert any("estimated from the number of characters" in sentence for sentence in said)


def test_a_price_that_nobody_publishes_is_said_or_given(serve: Serve) -> None:
    said: list[str] = []
    own = CoachModel(name="own-model")
    endpoint = serve(lambda _: answer("Yes.", model="own-model"))
    replies = ask(endpoint, times=2, coach={"models": [own], "notify": said.append})
    assert [reply.cost_usd for reply in replies] == [None, None]
    assert len([s for s in said if "own-model" in s and "input_price" in s]) == 1
    own = CoachModel(name="own-model", input_price=10.0, output_price=20.0)
    (reply,) = ask(endpoint, coach={"models": [own], "notify": said.append})
    assert reply.cost_usd == pytest.approx((100 * 10 + 10 * 20) / 1e6)


# What goes wrong on the way.


def test_a_storm_of_429_is_waited_out(serve: Serve) -> None:
    at = Time()
    busy = error(429, "slow down", {"Retry-After": "7"})
    endpoint = serve([busy, busy, answer("Be brief.")])
    (reply,) = ask(endpoint, at=at)
    assert reply.text == "Be brief."
    assert reply.requests == 1
    assert len(endpoint.requests) == 3
    assert all(7 <= wait <= 9 for wait in at.waits)


def test_all_calls_wait_while_the_endpoint_asks_to(serve: Serve) -> None:
    at = Time()
    told: list[int] = []

    def react(request: Request) -> Reaction:
        told.append(1)
        return error(429, "slow", {"Retry-After": "3"}) if len(told) == 1 else answer("Yes.")

    endpoint = serve(react)
    replies = ask(endpoint, times=3, together=True, at=at, settings={"concurrency": 1})
    assert [reply.text for reply in replies] == ["Yes."] * 3
    assert len(endpoint.requests) == 4


@pytest.mark.parametrize(
    "failing",
    [
        error(500, "oops"),
        Reaction(status=502, body=b"<html><title>Bad Gateway</title></html>"),
        error(503, "overloaded", {"Retry-After": "0"}),
        error(529, "overloaded"),
        error(408),
        Reaction(body=b'{"choices": [{"mess', how=CUT),
        Reaction(body=b"<!DOCTYPE html><html><h1>Hello</h1></html>"),
        Reaction(body=b'{"choices": []}'),
        Reaction(body=b"{not json"),
        Reaction(body=b"[1, 2]"),
        Reaction(body=b'{"error": {"message": "overloaded", "code": 502}}'),
    ],
    ids=lambda r: f"{r.status}-{r.body[:12]!r}-{r.how.decode()}",
)
def test_what_may_pass_is_tried_again(serve: Serve, failing: Reaction) -> None:
    endpoint = serve([failing, failing, answer("Be brief.")])
    (reply,) = ask(endpoint)
    assert (reply.text, reply.problem) == ("Be brief.", "")
    assert len(endpoint.requests) == 3


def test_a_hang_ends_at_the_time_out_and_is_tried_again(serve: Serve) -> None:
    endpoint = serve([Reaction(how=HANG), answer("Be brief.")])
    (reply,) = ask(endpoint, settings={"timeout_s": 0.3})
    assert reply.text == "Be brief."


def test_an_answer_without_end_is_cut_off(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ratchet.llm.transport.MAX_BYTES", 2**20)
    endpoint = serve([Reaction(how=ENDLESS), answer("Be brief.")])
    (reply,) = ask(endpoint)
    assert reply.text == "Be brief."


def test_a_server_that_never_answers_is_told_of(serve: Serve) -> None:
    endpoint = serve(lambda _: error(500, "oops"))
    with pytest.raises(CoachUnavailable, match=r"fails \(500\).*oops.*It was tried 3 times"):
        ask(endpoint, settings={"retries": 2})
    assert len(endpoint.requests) == 3


def test_one_prompt_that_always_fails_does_not_end_the_others(serve: Serve) -> None:
    def react(request: Request) -> Reaction:
        return error(500, "oops") if "poison" in request.said else answer("Yes.")

    endpoint = serve(react)

    async def work() -> list[Reply]:
        settings = CoachSettings(retries=2)
        async with Coach(
            "gpt-4o-mini", base_url=endpoint.url, environ={}, settings=settings, sleep=Time().sleep
        ) as coach:
            poison = asyncio.create_task(coach.ask([Message("user", "poison")]))
            return [*[await coach.ask(HELLO) for _ in range(9)], await poison]

    *others, poisoned = asyncio.run(work())
    assert {reply.text for reply in others} == {"Yes."}
    assert "The request failed" in poisoned.problem
    assert poisoned.requests == 0


def test_nobody_there_is_told_with_the_address() -> None:
    with pytest.raises(CoachUnavailable, match=r"127\.0\.0\.1:9/v1 cannot be reached") as caught:
        ask("http://127.0.0.1:9/v1", settings={"retries": 1})
    assert "base_url" in (caught.value.hint or "")


def test_a_wait_that_is_too_long_is_not_waited_for(serve: Serve) -> None:
    at = Time()
    endpoint = serve(lambda _: error(429, "quota", {"Retry-After": "86400"}))
    with pytest.raises(CoachUnavailable, match=r"limits the rate of requests \(429\)"):
        ask(endpoint, at=at)
    assert len(endpoint.requests) == 1
    assert at.waits == []


FINAL = {
    400: "rejected the request",
    401: "was refused",
    402: "no credit left",
    403: "has no permission to use",
    404: "There is no model",
    405: "rejected the request",
    301: "redirects",
}


@pytest.mark.parametrize("status", FINAL)
def test_what_will_not_pass_is_not_tried_again(serve: Serve, status: int) -> None:
    headers = {"Location": "http://elsewhere/"} if status == 301 else {}
    endpoint = serve(lambda _: error(status, "said by the server", headers))
    with pytest.raises(CoachUnavailable, match=FINAL[status]) as caught:
        ask(endpoint)
    assert len(endpoint.requests) == 1
    assert "said by the server" in caught.value.message or status == 301
    assert "[coach]" in (caught.value.hint or "")


def test_thoughts_that_spend_the_limit_may_come_as_a_400(serve: Serve) -> None:
    spent = error(
        400,
        "Could not finish the message because max_tokens or model output limit was"
        " reached. Please try again with higher max_tokens.",
    )
    endpoint = serve([spent, answer("Yes.")])
    replies = ask(endpoint, times=2, coach={"models": "gpt-5-mini"})
    assert "used up its token limit" in replies[0].problem
    assert replies[1].text == "Yes."
    assert "max_completion_tokens" in endpoint.requests[1].body


def test_a_prompt_that_is_too_long_or_filtered_is_a_problem_of_that_call(serve: Serve) -> None:
    endpoint = serve(
        [
            error(400, "This model's maximum context length is 8192 tokens."),
            error(400, "The response was filtered by our content management policy."),
        ]
    )
    replies = ask(endpoint, times=2)
    assert "prompt is too long" in replies[0].problem
    assert "refused the prompt" in replies[1].problem


def test_without_a_key_nothing_is_sent() -> None:
    for key in ("", "   "):
        with pytest.raises(CoachUnavailable, match="OPENAI_API_KEY is not set") as caught:
            ask("https://api.openai.com/v1", environ={"OPENAI_API_KEY": key})
        assert "export OPENAI_API_KEY" in (caught.value.hint or "")


def test_a_key_that_is_named_must_be_there(serve: Serve) -> None:
    endpoint = serve([answer("Yes.")])
    with pytest.raises(CoachUnavailable, match="MY_KEY is not set"):
        ask(endpoint, coach={"key_env": "MY_KEY"}, environ={})
    ask(endpoint, environ={})  # one's own server may ask for none
    assert endpoint.requests[0].headers["authorization"] == "Bearer none"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500])
def test_the_key_stays_out_of_errors_even_when_the_server_repeats_it(
    serve: Serve, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    endpoint = serve(lambda _: error(status, f"Incorrect key {KEY}, {KEY[:20]}… and {KEY[-14:]}"))
    with pytest.raises(CoachUnavailable) as caught:
        ask(endpoint, settings={"retries": 1})
    told = f"{caught.value} {caught.value.__cause__!r} {caught.value.__context__!r}"
    assert "[key]" in told
    for text in (told, caplog.text):
        assert KEY[3:15] not in text
        assert KEY[-12:] not in text


def test_the_key_stays_out_of_answers(serve: Serve) -> None:
    (reply,) = ask(serve([answer(f"Your key is {KEY}.")]))
    assert reply.text == "Your key is [key]."


def test_no_more_requests_at_once_than_allowed(serve: Serve) -> None:
    endpoint = serve(lambda _: answer("Yes."))
    ask(endpoint, times=30, together=True, settings={"concurrency": 3})
    assert len(endpoint.requests) == 30
    assert endpoint.most_at_once <= 3


def test_waiting_for_a_turn_does_not_use_up_the_time_of_a_call(serve: Serve) -> None:
    slow = msgspec.structs.replace(answer("Yes."), delay_s=0.2)
    replies = ask(
        serve(lambda _: slow),
        times=6,
        together=True,
        settings={"concurrency": 1, "total_s": 1.0, "retries": 0},
        coach={"clock": time.monotonic},
    )
    assert [reply.problem for reply in replies] == [""] * 6


def test_many_calls_that_learn_at_once_do_not_undo_one_another(serve: Serve) -> None:
    def react(request: Request) -> Reaction:
        if "response_format" in request.body:
            return error(400, "response_format is not supported")
        if "temperature" in request.body:
            return error(400, "temperature is not supported")
        return answer(GOOD)

    replies = ask(serve(react), times=20, together=True, schema=SCHEMA, temperature=0.5)
    assert [reply.data for reply in replies] == [{"advice": "state the rule"}] * 20


# Several models.


def test_a_model_that_is_gone_leaves_the_calls_to_the_others(serve: Serve) -> None:
    def react(request: Request) -> Reaction:
        return error(404, "no such model") if request.body["model"] == "b" else answer("Yes.")

    endpoint, said = serve(react), list[str]()
    replies = ask(endpoint, times=30, coach={"models": ["a", "b"], "notify": said.append})
    assert {reply.model for reply in replies} == {"a"}
    assert sum(request.body["model"] == "b" for request in endpoint.requests) == 1
    assert any("no model 'b'" in sentence for sentence in said)
    with pytest.raises(CoachUnavailable, match="no model 'b'"):
        ask(endpoint, coach={"models": ["a", "b"]}, model="b")


def test_calls_move_to_the_model_whose_proposals_survive(serve: Serve) -> None:
    endpoint = serve(lambda _: answer("Yes."))

    async def work() -> list[str]:
        asked: list[str] = []
        async with Coach(["bad", "good"], base_url=endpoint.url, environ={}, seed=3) as coach:
            for n in range(120):
                reply = await coach.ask([Message("user", f"question {n}")])
                coach.credit(reply.model, reply.model == "good")
                asked.append(reply.model)
        return asked

    asked = asyncio.run(work())
    assert asked[:20].count("bad") >= 3
    assert 1 <= asked[60:].count("bad") <= 12
    assert asyncio.run(work()) == asked


def test_a_check_asks_each_model_once_and_names_the_one_that_is_wrong(serve: Serve) -> None:
    def react(request: Request) -> Reaction:
        return error(401, "bad key") if request.body["model"] == "b" else answer("ready")

    endpoint = serve(react)

    async def check(models: list[str], environ: dict[str, str]) -> list[Reply]:
        async with Coach(models, base_url=endpoint.url, environ=environ) as coach:
            return await coach.check()

    assert len(asyncio.run(check(["a", "c"], {}))) == 2
    assert {request.body["max_tokens"] for request in endpoint.requests} == {16}
    with pytest.raises(CoachUnavailable, match=r"refused for 'b'"):
        asyncio.run(check(["a", "b"], {"OPENAI_API_KEY": KEY}))


def test_a_check_does_not_wait_long_for_who_is_not_there(serve: Serve) -> None:
    endpoint, at = serve(lambda _: error(500, "oops")), Time()

    async def check() -> None:
        async with Coach(
            "a", base_url=endpoint.url, environ={}, sleep=at.sleep, clock=at.clock
        ) as coach:
            await coach.check()

    with pytest.raises(CoachUnavailable, match="It was tried 3 times"):
        asyncio.run(check())
    assert sum(at.waits) < 3


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("localhost:8000", "is not a valid URL"),
        ("ftp://host/v1", "is not a valid URL"),
        ("http://user:secret-password@host/v1", "has more than scheme, host and path"),
        ("http://host/v1?key=secret-password", "has more than scheme, host and path"),
    ],
)
def test_an_address_that_is_none_is_told_without_its_secrets(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        ask(url)
    assert "secret-password" not in str(caught.value)


def test_a_name_may_carry_its_provider() -> None:
    from ratchet.llm.endpoint import endpoint_of

    place = endpoint_of(CoachModel(name="openrouter/qwen/qwen3-32b"), {"OPENROUTER_API_KEY": KEY})
    assert place.model == "qwen/qwen3-32b"
    assert place.base_url == "https://openrouter.ai/api/v1"
    assert KEY not in repr(place)
    with pytest.raises(CoachUnavailable, match="GROQ_API_KEY is not set"):
        endpoint_of(CoachModel(name="groq/llama-3.3-70b"), {})
    own = endpoint_of(CoachModel(name="qwen/qwen3", base_url="http://gpu:8000/v1/"), {})
    assert (own.model, own.base_url) == ("qwen/qwen3", "http://gpu:8000/v1")
    assert endpoint_of(CoachModel(name="bedrock/claude"), {}).through == "litellm"
    assert endpoint_of(CoachModel(name="litellm:vertex_ai/gemini"), {}).model == "vertex_ai/gemini"
    named = endpoint_of(CoachModel(name="openai/m"), {"OPENAI_BASE_URL": "http://proxy/v1"})
    assert (named.model, named.base_url) == ("m", "http://proxy/v1")


def test_without_litellm_it_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "litellm", None)
    with pytest.raises(CoachUnavailable, match=r"not installed.*agent-ratchet\[litellm\]"):
        ask("http://127.0.0.1:9/v1", coach={"models": "litellm:bedrock/claude"})
