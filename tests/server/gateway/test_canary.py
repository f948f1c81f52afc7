"""A canary at the gateway: agents that know nothing of Ratchet, split by conversation or user."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from ratchet.server.gateway import MODEL_APIS, GatewayTarget
from ratchet.server.gateway.substitution import CACHE_TTL_S, PromptSubstituter, Substitution
from ratchet.server.gateway.units import CallUnit, unit_of
from ratchet.store import Store
from ratchet.types import (
    Activation,
    AgentSettings,
    Candidate,
    PromptTemplate,
    TrafficSplit,
    unit_digest,
)
from ratchet.types.trace import CALL_START
from tests.clocks import Clock
from tests.server.gateway.conftest import Site, both, http_request, raw_call
from tests.server.gateway.upstreams import StubUpstream

CHAT = MODEL_APIS["openai", "chat/completions"]
BOT = GatewayTarget(agent="bot")
SOURCE = Candidate.of({"system": PromptTemplate("You book rooms.")}, algorithm="discover")
RELEASE = SOURCE.derive({"system": PromptTemplate("You book rooms. Be brief.")}, algorithm="apo")
BETTER = SOURCE.derive({"system": PromptTemplate("You book rooms. Ask back.")}, algorithm="apo")


def chat(question: str = "Hello", **fields: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": "You book rooms."}]
    return {"model": "m", "messages": [*messages, {"role": "user", "content": question}], **fields}


class Agent:
    """A live agent whose calls go through the gateway."""

    def __init__(self, store: Store) -> None:
        self.store = store
        for candidate in (SOURCE, RELEASE, BETTER):
            store.candidates.put(candidate)
        store.agents.put(AgentSettings(name="bot", substitute=True), 1.0)
        self.clock = Clock()
        self.substituter = PromptSubstituter(store, clock=self.clock)
        self.loop = asyncio.new_event_loop()

    def activate(self, id: str) -> None:
        self.store.agents.activate(Activation(agent="bot", candidate_id=id, activated_at=1.0))

    def split(self, enrolled: float = 1.0, experiment_id: str = "e") -> None:
        split = TrafficSplit(
            agent="bot", experiment_id=experiment_id, candidate_id=BETTER.id, enrolled=enrolled
        )
        self.store.traffic.put(split)

    def call(self, request: dict[str, Any], unit: CallUnit | None = None) -> Substitution | None:
        self.clock.now += CACHE_TTL_S
        return self.loop.run_until_complete(self.substituter(BOT, request, CHAT, unit))


@pytest.fixture
def agent(disk: Store) -> Agent:
    return Agent(disk)


def said(found: Substitution | None) -> str:
    assert found is not None
    return str(found.request["messages"][0]["content"])


def test_half_of_the_users_get_the_candidate_and_keep_it(agent: Agent) -> None:
    agent.activate(RELEASE.id)
    agent.split()
    arms: dict[str, Any] = {}
    for number in range(20):
        found = agent.call(chat("Hello", user=f"u{number}"))
        assert found is not None
        arm = found.attributes["ratchet.arm"]
        version = BETTER if arm == "candidate" else RELEASE
        assert said(found) == version.resources["system"].text  # type: ignore[union-attr]
        assert found.attributes["ratchet.candidate_id"] == version.id
        assert found.attributes["ratchet.unit"] == unit_digest(f"u{number}")
        arms[f"u{number}"] = arm
    assert set(arms.values()) == {"baseline", "candidate"}
    for user, arm in arms.items():
        found = agent.call(chat("Something else", user=user))
        assert found is not None
        assert found.attributes["ratchet.arm"] == arm


def test_the_baseline_may_be_the_agents_own_prompt(agent: Agent) -> None:
    agent.split()
    seen = [agent.call(chat(user=f"u{n}")) for n in range(30)]
    assert {said(one) for one in seen} == {"You book rooms.", "You book rooms. Ask back."}
    own = [one for one in seen if one and one.attributes["ratchet.arm"] == "baseline"]
    assert own
    assert all("ratchet.candidate_id" not in one.attributes for one in own)


def test_a_named_conversation_keeps_its_release_and_a_withdrawn_one_is_taken_from_it(
    agent: Agent,
) -> None:
    talk = CallUnit("talk", conversation=True)
    agent.activate(RELEASE.id)
    assert said(agent.call(chat(), talk)) == "You book rooms. Be brief."
    agent.activate(BETTER.id)
    assert said(agent.call(chat(), talk)) == "You book rooms. Be brief."
    assert said(agent.call(chat(), CallUnit("other", True))) == "You book rooms. Ask back."
    agent.activate("")
    assert agent.call(chat(), talk) is None


def test_the_unit_is_the_conversation_else_the_user_else_the_trace_else_the_beginning() -> None:
    context = ("a" * 32, "b" * 16)
    assert unit_of(chat(user="ann"), "talk", context) == ("talk", True)
    assert unit_of({"conversation": {"id": "c1"}, "user": "ann"}, "", context) == ("c1", True)
    assert unit_of(chat(user="ann"), "", context) == ("ann", False)
    assert unit_of({"metadata": {"user_id": "ben"}}, "", context) == ("ben", False)
    assert unit_of(chat(), "", context) == ("a" * 32, False)
    begun = unit_of(chat("Hello"))
    longer = chat("Hello")
    longer["messages"] += [{"role": "assistant", "content": "Hi"}]
    assert unit_of(longer) == begun
    assert unit_of(chat("Bye")) != begun


def test_a_call_in_a_canary_leaves_a_start_while_the_upstream_hangs(
    disk: Store, open_site: Callable[..., Site], upstream: StubUpstream
) -> None:
    agent = Agent(disk)
    agent.split()
    upstream.sends(hangs=True)
    site = open_site(*both(upstream), substitute=PromptSubstituter(disk))
    request = http_request("/gateway/bot/openai/v1/chat/completions", json.dumps(chat()).encode())
    with raw_call(site.port, request):
        start = site.span()
    call = next(span for span in site.spans(2) if span.name != CALL_START)
    assert (start.name, start.trace_id, start.parent_id) == (
        CALL_START,
        call.trace_id,
        call.span_id,
    )
    told = ("ratchet.experiment_id", "ratchet.arm", "ratchet.unit", "ratchet.candidate_id")
    assert {key: start.attributes.get(key) for key in told} == {
        key: call.attributes.get(key) for key in told
    }
    assert start.attributes["ratchet.arm"] in ("baseline", "candidate")
