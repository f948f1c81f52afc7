"""Tokens of model calls: asked for, kept exactly, hidden from the agent, or dropped and counted."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import jinja2
import openai
import pytest

from ratchet._http import httpx2
from ratchet.observe.model_apis import chat
from ratchet.server.gateway import Upstream
from ratchet.server.gateway.substitution import Substitution
from ratchet.server.gateway.training import TrainingReader
from ratchet.store import Store
from ratchet.types import (
    KeptTokens,
    Rollout,
    Transition,
    unpack_floats,
    unpack_ids,
)
from tests.server.gateway.conftest import Site, both, exchange
from tests.server.gateway.upstreams import (
    Seen,
    StubUpstream,
    Wire,
    chunk,
    event,
    reply,
    stream_head,
)

EXTRA = ("token_ids", "ratchet", "tokenizer")
ASKED: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]

# As Qwen3's: thoughts of earlier answers are left out once a person spoke again.
STRIPS_THOUGHTS = jinja2.Environment(autoescape=False).from_string(
    "{% for m in messages %}{% set text = m.content %}"
    "{% if m.role == 'assistant' and not loop.last and '</think>' in text %}"
    "{% set text = text.split('</think>')[-1] %}{% endif %}"
    "<|{{ m.role }}|>{{ text }}<|end|>{% endfor %}<|assistant|>"
)


class Engine:
    """Answers as vLLM does, with the characters as tokens; a template renders the prompt."""

    def __init__(self, *answers: str, **changes: Any) -> None:
        self.answers = list(answers) or ["Yes."]
        self.changes = changes
        self._lock = threading.Lock()
        self._number = 0

    def __call__(self, seen: Seen, wire: Wire) -> None:
        body = seen.json
        with self._lock:
            number = self._number
            self._number += 1
        text = self.answers[number % len(self.answers)]
        prompt = [ord(c) for c in STRIPS_THOUGHTS.render(messages=body["messages"])]
        ids = [*map(ord, text), *map(ord, "<|end|>")]
        common = {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "created": 1,
            "model": body["model"],
        }
        about = {"version_first": "v1", "version_last": "v2", "tokenizer": "tok", "template": "t"}
        if not body.get("stream"):
            choice = {
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop",
                "token_ids": ids,
                "logprobs": {"content": [logprob(id) for id in ids]},
            }
            choices = [{"index": n, **choice, **self.changes} for n in range(body.get("n", 1))]
            whole = {**common, "prompt_token_ids": prompt, "choices": choices, "ratchet": about}
            wire.send(reply(whole))
            return
        wire.send(stream_head())
        first = {"index": 0, "delta": {"role": "assistant", "content": ""}}
        wire.send(chunk(event({**common, "prompt_token_ids": prompt, "choices": [first]})))
        for id in ids:
            part = {"delta": {"content": chr(id)}, "token_ids": [id]}
            one = {"index": 0, **part, "logprobs": {"content": [logprob(id)]}, **self.changes}
            data = event({**common, "choices": [one]})
            wire.send(chunk(data[:20]))
            wire.send(chunk(data[20:]))
        last = {"index": 0, "delta": {}, "finish_reason": "stop", "logprobs": None}
        wire.send(chunk(event({**common, "choices": [last], "ratchet": about})))
        wire.send(chunk(event("[DONE]")))
        wire.send(chunk(b""))


def logprob(id: int) -> dict[str, Any]:
    return {"token": chr(id), "logprob": -id / 256, "bytes": None, "top_logprobs": []}


@pytest.fixture
def training(disk: Store, open_site: Callable[..., Site], upstream: StubUpstream) -> Site:
    """A gateway, and the running rollout r1 that trains a model."""
    begin(disk, "train/run")
    return open_site(*both(upstream), training=TrainingReader(disk))


def begin(store: Store, purpose: str, id: str = "r1") -> None:
    rollout = Rollout(
        id=id,
        queue="q",
        candidate_id="",
        task_id="t",
        input="?",
        purpose=purpose,
    )
    store.rollouts.create([rollout], time.time())
    store.rollouts.claim("q", "w/1/1", 1, 60.0, time.time())


def client(site: Site, scope: str = "r1@1") -> openai.OpenAI:
    return openai.OpenAI(base_url=site.url(scope), api_key="sk-x", max_retries=0)


def say(site: Site, messages: list[dict[str, Any]], **more: Any) -> Any:
    create: Any = client(site).chat.completions.create
    return create(**{"model": "m", "messages": messages, **more})


def stored(site: Site, spans: int) -> list[Transition]:
    site.spans(spans, "r1")
    return site.store.transitions.of(["r1"])["r1"]


def text_of(ids: bytes) -> str:
    return "".join(map(chr, unpack_ids(ids)))


def test_the_tokens_of_a_call_are_kept_exactly_and_the_agent_sees_none(
    training: Site, upstream: StubUpstream
) -> None:
    upstream.script = Engine("Yes.")
    answer = say(training, ASKED, temperature=0, top_p=0.5, seed=1, extra_body={"top_k": 5})
    assert answer.choices[0].message.content == "Yes."
    assert not any(word in answer.model_dump_json() for word in EXTRA)
    assert answer.choices[0].logprobs is None
    sent = upstream.seen[0].json
    assert (sent["return_token_ids"], sent["logprobs"]) == (True, True)
    assert (sent["temperature"], sent["top_p"], sent["top_k"]) == (1.0, 1.0, -1)
    assert (sent["repetition_penalty"], sent["presence_penalty"]) == (1.0, 0.0)
    [kept] = stored(training, 1)
    assert text_of(kept.prompt_ids) == "<|user|>Hi<|end|><|assistant|>"
    assert text_of(kept.response_ids) == "Yes.<|end|>"
    assert list(unpack_floats(kept.logprobs)) == [-ord(c) / 256 for c in "Yes.<|end|>"]
    assert (kept.version_first, kept.version_last) == ("v1", "v2")
    assert (kept.tokenizer, kept.template, kept.response_id) == ("tok", "t", "chatcmpl-0")
    assert (kept.model, kept.finish_reason, kept.call_index) == ("m", "stop", 0)
    assert (kept.sampling.temperature, kept.sampling.top_k) == (1.0, -1)
    assert kept.sampling.seed == sent["seed"] != 1
    span = training.span("r1")
    assert kept.id == span.span_id
    assert span.attributes["ratchet.tokens.response"] == len("Yes.<|end|>")
    assert not any(isinstance(value, list) and len(value) > 3 for value in span.attributes.values())


def test_a_streamed_call_is_kept_and_stripped_too(training: Site, upstream: StubUpstream) -> None:
    upstream.script = Engine("Yes.")
    parts = list(say(training, ASKED, stream=True))
    assert "".join(p.choices[0].delta.content or "" for p in parts) == "Yes.<|end|>"
    assert not any(word in part.model_dump_json() for part in parts for word in EXTRA)
    assert all(part.choices[0].logprobs is None for part in parts)
    [kept] = stored(training, 1)
    assert text_of(kept.response_ids) == "Yes.<|end|>"
    assert len(kept.logprobs) == len(kept.response_ids)
    assert (kept.version_last, kept.finish_reason) == ("v2", "stop")


def test_what_the_agent_asked_for_itself_stays(training: Site, upstream: StubUpstream) -> None:
    upstream.script = Engine("Yes.")
    answer = say(training, ASKED, logprobs=True)
    assert answer.choices[0].logprobs.content[0].logprob == -ord("Y") / 256
    assert "token_ids" not in answer.model_dump_json()
    answer = say(training, ASKED, extra_body={"return_token_ids": True})
    assert text_of_list(answer.prompt_token_ids).startswith("<|user|>")
    assert answer.choices[0].logprobs is None
    assert len(stored(training, 2)) == 2


def text_of_list(ids: list[int]) -> str:
    return "".join(map(chr, ids))


def test_a_compressed_response_is_kept_and_stripped(training: Site, upstream: StubUpstream) -> None:
    whole = {
        "prompt_token_ids": [1],
        "choices": [
            {
                "message": {"role": "assistant", "content": "x"},
                "token_ids": [2],
                "logprobs": {"content": [{"logprob": -1.0}]},
            }
        ],
    }
    packed = gzip.compress(json.dumps(whole).encode())
    upstream.answers(packed, content_encoding="gzip")
    body = json.dumps({"model": "m", "messages": ASKED}).encode()
    path = "/gateway/r1@1/openai/v1/chat/completions"
    head, answer = exchange(training, path, body, {"accept-encoding": "gzip"})
    assert b'"content": "x"' in answer
    assert b"token_ids" not in answer
    assert b"content-encoding" not in head.lower()
    assert upstream.seen[0].header("accept-encoding") == "identity"
    assert [one.response_ids for one in stored(training, 1)] == [b"\2\0\0\0"]


def test_a_conversation_is_one_branch_until_its_template_rewrites_the_past(
    training: Site, upstream: StubUpstream
) -> None:
    upstream.script = Engine("One", "<think>hm</think>Two", "Three", "Four")
    messages = list(ASKED)
    for _ in range(4):
        answer = say(training, messages)
        messages.append({"role": "assistant", "content": answer.choices[0].message.content})
        messages.append({"role": "user", "content": "And?"})
    kept = stored(training, 4)
    first, second, third, fourth = (one.id for one in kept)
    # The thought is gone from the third prompt, so the second call is not what it continues.
    assert [one.parent for one in kept] == [None, first, first, third]
    assert [one.call_index for one in kept] == [0, 1, 2, 3]
    assert "hm" in text_of(kept[1].response_ids)
    assert "hm" not in text_of(kept[2].prompt_ids)
    assert second != fourth


def test_every_call_is_kept_when_many_run_at_once(training: Site, upstream: StubUpstream) -> None:
    upstream.script = Engine("Yes.", "No, never.")

    def some(number: int) -> None:
        for turn in range(4):
            content = f"{number} {turn}"
            list(say(training, [{"role": "user", "content": content}], stream=True))
            say(training, [{"role": "user", "content": content}])

    threads = [threading.Thread(target=some, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    training.run(training.gateway.flush_attempt("r1", 1))
    kept = training.store.transitions.of(["r1"])["r1"]
    assert len(kept) == len(upstream.seen) == 32
    assert {one.call_index for one in kept} == set(range(32))
    for one in kept:
        assert text_of(one.prompt_ids).startswith("<|user|>")
        assert text_of(one.response_ids) in ("Yes.<|end|>", "No, never.<|end|>")
    assert training.store.transitions.kept(["r1"])["r1"].dropped == {}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"logprobs": None}, "no_logprobs"),
        ({"token_ids": None}, "no_token_ids"),
        ({"token_ids": [1]}, "lengths_differ"),
        ({"token_ids": [2**40] * 11}, "bad_number"),
        ({"logprobs": {"content": [{"logprob": 3.0}] * 11}}, "bad_number"),
        ({"logprobs": {"content": [{}] * 11}}, "bad_number"),
    ],
)
def test_a_call_whose_tokens_do_not_fit_is_dropped_and_counted(
    training: Site,
    upstream: StubUpstream,
    caplog: pytest.LogCaptureFixture,
    changes: dict[str, Any],
    reason: str,
) -> None:
    upstream.script = Engine("Yes.", **changes)
    for _ in range(2):
        assert say(training, ASKED).choices[0].message.content == "Yes."
    assert stored(training, 2) == []
    assert training.store.transitions.kept(["r1"]) == {"r1": KeptTokens(dropped={reason: 2})}
    assert training.spans(2, "r1")[0].attributes["ratchet.tokens.dropped"] == reason
    said = [
        one.getMessage() for one in caplog.records if "cannot be trained on" in one.getMessage()
    ]
    assert len(said) == 1
    assert "model 'm' at the upstream 'one'" in said[0]


def test_a_response_that_breaks_off_is_dropped_and_a_refusal_is_not_counted(
    training: Site, upstream: StubUpstream
) -> None:
    part = {"index": 0, "delta": {"content": "x"}, "token_ids": [1]}
    upstream.sends(stream_head(), chunk(event({"prompt_token_ids": [1], "choices": [part]})))
    with pytest.raises((openai.APIError, httpx2.HTTPError)):
        list(say(training, ASKED, stream=True))
    upstream.answers({"error": {"message": "too long"}}, status=400)
    with pytest.raises(openai.BadRequestError):
        say(training, ASKED)
    assert stored(training, 2) == []
    assert training.store.transitions.kept(["r1"])["r1"].dropped == {"incomplete": 1}


def test_apis_without_token_ids_are_named(
    training: Site, upstream: StubUpstream, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.answers({"content": [{"type": "text", "text": "x"}], "model": "m"})
    body = json.dumps({"model": "m", "messages": ASKED}).encode()
    exchange(training, "/gateway/r1@1/anthropic/v1/messages", body)
    assert stored(training, 1) == []
    assert training.store.transitions.kept(["r1"])["r1"].dropped == {"api": 1}
    assert "must call /chat/completions" in caplog.text
    # It was sent as the agent wrote it.
    assert upstream.seen[0].json == {"model": "m", "messages": ASKED}


def test_another_tokenizer_is_noticed(
    training: Site, upstream: StubUpstream, caplog: pytest.LogCaptureFixture
) -> None:
    whole = {
        "prompt_token_ids": [1],
        "choices": [{"message": {}, "token_ids": [], "logprobs": {"content": []}}],
    }
    for tokenizer in ("a", "a", "b"):
        upstream.answers({**whole, "ratchet": {"tokenizer": tokenizer}})
        say(training, ASKED)
    assert len(stored(training, 3)) == 3
    assert caplog.text.count("has changed its tokenizer: b instead of a") == 1


def test_a_rollout_that_does_not_train_is_left_alone(
    disk: Store, open_site: Callable[..., Site], upstream: StubUpstream
) -> None:
    begin(disk, "learn/run")
    site = open_site(*both(upstream), training=TrainingReader(disk))
    upstream.script = Engine("Yes.")
    answer = say(site, ASKED, temperature=0)
    assert answer.prompt_token_ids  # the engine returns it unasked, and nothing is stripped
    assert upstream.seen[0].json == {"model": "m", "messages": ASKED, "temperature": 0}
    # It is kept all the same.
    assert len(stored(site, 1)) == 1
    upstream.answers({"choices": [{"message": {"role": "assistant", "content": "x"}}]})
    say(site, ASKED)
    assert len(stored(site, 2)) == 1
    assert site.store.transitions.kept(["r1"])["r1"].dropped == {}


class Renames:
    """A substitution that names the candidate's model."""

    async def __call__(self, target: Any, request: Any, dialect: Any, unit: Any) -> Substitution:
        return Substitution({**request, "model": "adapter-7"})


def test_the_candidates_model_chooses_its_own_upstream_and_leaves_embeddings(
    disk: Store, open_site: Callable[..., Site], upstream: StubUpstream
) -> None:
    begin(disk, "train/run")
    other = StubUpstream(Engine("Yes."))
    agents = Upstream(
        name="agent", dialect="openai", base_url=upstream.url, models={"*": "gpt-4o-mini"}
    )
    policy = Upstream(
        name="policy", dialect="openai", base_url=other.url, models={"adapter-*": "adapter-*"}
    )
    training = TrainingReader(disk)
    site = open_site(agents, policy, substitute=Renames(), training=training)
    try:
        say(site, ASKED, model="gpt")
        upstream.answers({"data": []})
        body = json.dumps({"model": "embed", "input": "x"}).encode()
        exchange(site, "/gateway/r1@1/openai/v1/embeddings", body)
        assert other.seen[0].json["model"] == "adapter-7"
        assert upstream.seen[0].json["model"] == "gpt-4o-mini"
        assert stored(site, 2)[0].model == "adapter-7"
        first = site.spans(2, "r1")[0].attributes
        assert (first["ratchet.upstream"], first["ratchet.asked_model"]) == ("policy", "gpt")
        assert site.store.transitions.kept(["r1"])["r1"].dropped == {}
    finally:
        other.close()


def test_equal_calls_get_seeds_of_their_own_which_a_repeated_rollout_gets_again(
    disk: Store, open_site: Callable[..., Site], upstream: StubUpstream
) -> None:
    for id in ("r1", "r2"):
        begin(disk, "train/run", id=id)
    site = open_site(*both(upstream), training=TrainingReader(disk))
    upstream.script = Engine("Yes.")

    def seeds(scope: str) -> list[int]:
        create: Any = client(site, scope).chat.completions.create
        for _ in range(2):
            create(model="m", messages=ASKED, seed=42)
        return [one.json["seed"] for one in upstream.seen[-2:]]

    first = seeds("r1@1")
    assert len({*first, *seeds("r2@1")}) == 4
    site.run(site.gateway.flush_attempt("r1", 1))
    disk.rollouts.release([("r1", 1)], time.time())
    disk.rollouts.claim("q", "w/1/1", 1, 60.0, time.time())
    assert seeds("r1@2") == first


def test_too_many_token_ids_are_left_out_rather_than_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("chat", "bounded_json"):
        monkeypatch.setattr(f"ratchet.observe.model_apis.{module}.MAX_TOKENS", 10)
    whole = {"choices": [{"message": {}, "token_ids": list(range(11))}]}
    assert chat.choice_tokens(whole)[0].response is None
    assembly = chat.assembly()
    for number in range(30):
        assembly.add({"choices": [{"index": 0, "delta": {}, "token_ids": [number]}]})
    assert chat.choice_tokens(assembly.response())[0].response is None
