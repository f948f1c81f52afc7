"""Mirrored model calls: sent after the client has its answer, within bounds, recorded apart."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import openai
import pytest

from ratchet.autopilot.gateway_shadow import gateway_pairs
from ratchet.evaluate import evaluator
from ratchet.server.gateway.mirroring import AT_ONCE, CallMirror
from ratchet.server.gateway.substitution import PromptSubstituter, Shadow
from ratchet.store import Store
from ratchet.types import AgentSettings, Candidate, PromptTemplate, SpanRecord, TrafficSplit
from tests.clocks import Clock
from tests.server.gateway.conftest import Site, both
from tests.server.gateway.upstreams import StubUpstream

SOURCE = Candidate.of({"system": PromptTemplate("You book rooms.")}, algorithm="discover")
BETTER = SOURCE.derive({"system": PromptTemplate("You book rooms. Ask back.")}, algorithm="apo")


def begin(store: Store, mirror: float | None = 1.0, enrolled: float = 0.0) -> None:
    """A shadow stage of the agent."""
    for candidate in (SOURCE, BETTER):
        store.candidates.put(candidate)
    store.agents.put(AgentSettings(name="bot", mirror=mirror), 1.0)
    store.traffic.put(
        TrafficSplit(agent="bot", experiment_id="e", candidate_id=BETTER.id, enrolled=enrolled)
    )


@pytest.fixture
def site(disk: Store, open_site: Callable[..., Site], upstream: StubUpstream) -> Site:
    message = {"role": "assistant", "content": "Hello, please"}
    upstream.answers({"id": "x", "model": "m", "choices": [{"index": 0, "message": message}]})
    return open_site(*both(upstream), substitute=PromptSubstituter(disk))


def ask(site: Site, system: str = "You book rooms.") -> str | None:
    client = openai.OpenAI(base_url=site.url("bot"), api_key="x", max_retries=0)
    messages: Any = [{"role": "system", "content": system}, {"role": "user", "content": "Hi"}]
    return client.chat.completions.create(model="m", messages=messages).choices[0].message.content


def prompts(upstream: StubUpstream) -> list[str]:
    return [json.loads(one.body)["messages"][0]["content"] for one in upstream.seen]


def sent(upstream: StubUpstream, count: int) -> list[str]:
    """The system prompts that reached the upstream, once there are so many."""
    until = time.monotonic() + 30
    while len(upstream.seen) < count and time.monotonic() < until:
        time.sleep(0.005)
    return prompts(upstream)


def test_a_call_is_sent_again_with_the_candidates_prompt_and_recorded_apart(
    site: Site, disk: Store, upstream: StubUpstream
) -> None:
    begin(disk)
    assert ask(site) == "Hello, please"
    assert sent(upstream, 2) == ["You book rooms.", "You book rooms. Ask back."]
    site.spans(2)
    (live,), (mirrored,) = (disk.spans.live(name, 10)[0] for name in ("bot", "bot.shadow"))
    assert mirrored.attributes["ratchet.mirror_of"] == live.trace_id != mirrored.trace_id
    assert mirrored.attributes["ratchet.mirror_id"] == live.attributes["ratchet.mirror_id"]
    assert mirrored.attributes["ratchet.experiment_id"] == "e"
    assert mirrored.attributes["ratchet.candidate_id"] == BETTER.id
    assert "ratchet.candidate_id" not in live.attributes


@pytest.mark.parametrize(
    ("mirror", "enrolled"), [(None, 0.0), (0.0, 0.0), (1.0, 0.5)], ids=["unset", "off", "canary"]
)
def test_without_the_agents_leave_or_in_a_canary_nothing_is_mirrored(
    site: Site, disk: Store, upstream: StubUpstream, mirror: float | None, enrolled: float
) -> None:
    begin(disk, mirror, enrolled)
    ask(site)
    site.close()
    assert prompts(upstream) == ["You book rooms."]


def test_a_prompt_that_is_not_known_is_not_mirrored(
    site: Site, disk: Store, upstream: StubUpstream
) -> None:
    begin(disk)
    ask(site, "You are a cook.")
    site.close()
    assert prompts(upstream) == ["You are a cook."]


def test_the_pairs_are_scored_by_the_same_evaluator(
    site: Site, disk: Store, upstream: StubUpstream
) -> None:
    @evaluator
    def polite(output: str) -> float:
        return float("please" in output)

    begin(disk)
    ask(site)
    sent(upstream, 2)
    site.spans(2)

    def read(cursor: str | None = None) -> Any:
        work = gateway_pairs(
            disk,
            polite,
            agent="bot",
            experiment_id="e",
            cursor=cursor,
            since=0.0,
            now=time.time() + 100,
        )
        return asyncio.run(work)

    found = read()
    (pair,) = found.pairs
    assert (pair.baseline, pair.candidate, found.unpaired) == (1.0, 1.0, 0)
    assert read(found.cursor).pairs == ()
    (mirrored,) = disk.spans.live("bot.shadow", 10)[0]
    disk.spans.put([SpanRecord(span=_without_live(mirrored), agent="bot.shadow")])
    assert read(found.cursor).unpaired == 1


def _without_live(span: Any) -> Any:
    import msgspec

    attributes = {**span.attributes, "ratchet.mirror_of": "0" * 32}
    return msgspec.structs.replace(
        span, trace_id="f" * 32, span_id="f" * 16, start_ns=span.start_ns + 1, attributes=attributes
    )


def test_no_more_calls_a_minute_than_allowed() -> None:
    clock = Clock()
    mirror = CallMirror(None, None, clock=clock, per_minute=3)  # type: ignore[arg-type]
    shadow = Shadow("e", "c", 1.0)
    assert [mirror.admits(shadow) for _ in range(5)] == [True, True, True, False, False]
    assert mirror.admits(Shadow("f", "c", 1.0)), "another experiment has its own"
    clock.now = 60.0
    assert mirror.admits(shadow)


def test_only_the_share_is_mirrored() -> None:
    mirror = CallMirror(None, None, per_minute=10_000)  # type: ignore[arg-type]
    admitted = sum(mirror.admits(Shadow("e", "c", 0.25)) for _ in range(4_000))
    assert 800 < admitted < 1_200


def test_no_more_calls_at_once_than_allowed() -> None:
    async def work() -> None:
        mirror = CallMirror(None, None, per_minute=10_000)  # type: ignore[arg-type]
        begun = threading.Event()

        async def long() -> None:
            begun.set()
            await asyncio.Future[None]()

        for _ in range(AT_ONCE):
            assert mirror.admits(Shadow("e", "c", 1.0))
            mirror.start(long())
        assert not mirror.admits(Shadow("e", "c", 1.0))
        await mirror.close()
        assert mirror.admits(Shadow("e", "c", 1.0))

    asyncio.run(work())
