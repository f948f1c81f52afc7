"""Prompts of agents that know nothing of Ratchet, replaced on their way to the model."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import urllib.request
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, TypeVar

import openai
import pytest

from ratchet._http import httpx2
from ratchet.server.gateway import MODEL_APIS, GatewayTarget
from ratchet.server.gateway.substitution import CACHE_TTL_S, PromptSubstituter
from ratchet.store import Store
from ratchet.types import (
    Activation,
    Adapter,
    AgentSettings,
    Candidate,
    InputError,
    Model,
    PromptTemplate,
    RatchetError,
    Resource,
    Rollout,
    StoreError,
    version_of,
)
from tests.clocks import Clock
from tests.server.gateway.conftest import Site, both
from tests.server.gateway.upstreams import StubUpstream

Result = TypeVar("Result")

CHAT = MODEL_APIS["openai", "chat/completions"]
SOURCE = PromptTemplate("You are a booking assistant. Today is {date}.\n{documents}\nBe brief.")
BETTER = PromptTemplate("{documents}\n\nYou book rooms. It is {date}. Ask back when unsure.")
FILLED = {"date": "2026-11-02", "documents": "Room {7} is free."}
OLD, NEW = SOURCE.format(**FILLED), BETTER.format(**FILLED)
BOT = GatewayTarget(agent="bot")


class World:
    """A store in which an agent's prompts are registered."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.moments = itertools.count(1000.0)

    def candidate(self, **resources: Resource) -> Candidate:
        """A candidate that is stored."""
        candidate = Candidate.of({name.replace("_", "."): r for name, r in resources.items()})
        self.store.candidates.put(candidate)
        return candidate

    def switch(self, agent: str = "bot", *, on: bool = True) -> None:
        """Switch substitution on or off."""
        self.store.agents.put(AgentSettings(name=agent, substitute=on), next(self.moments))

    def activate(self, candidate: Candidate | None, agent: str = "bot") -> None:
        """Make a candidate the agent's active one."""
        self.store.agents.activate(
            Activation(
                agent=agent,
                candidate_id=candidate.id if candidate else "",
                activated_at=next(self.moments),
            )
        )

    def rollout(self, candidate_id: str, queue: str = "bot", name: str = "r1") -> GatewayTarget:
        """An attempt of a rollout of that candidate."""
        rollout = Rollout(id=name, queue=queue, candidate_id=candidate_id, task_id="t", input="?")
        self.store.rollouts.create([rollout], 1.0)
        return GatewayTarget(rollout_id=name, fence=1)


@pytest.fixture
def world(disk: Store) -> World:
    """An empty store."""
    return World(disk)


@pytest.fixture
def improved(world: World) -> Candidate:
    """The agent's source is registered, a better prompt is active, and the agent switched on."""
    world.candidate(bot_system=SOURCE)
    better = world.candidate(bot_system=BETTER)
    world.switch()
    world.activate(better)
    return better


def run(work: Coroutine[Any, Any, Result]) -> Result:
    return asyncio.run(work)


def substituted(world: World, request: Any, target: GatewayTarget = BOT) -> Any:
    """What becomes of a call, None when it stays as it is."""
    return run(PromptSubstituter(world.store)(target, request, CHAT))


def chat(*system: str, user: str = "Hello") -> dict[str, Any]:
    messages = [{"role": "system", "content": text} for text in system]
    return {"model": "m", "messages": [*messages, {"role": "user", "content": user}]}


def test_beside_instructions_a_users_message_holds_a_users_prompts_alone(world: World) -> None:
    ask = PromptTemplate("Sort this mail into one of our folders:\n{mail}")
    world.candidate(bot_system=SOURCE, bot_user=ask)
    better = world.candidate(
        bot_system=BETTER, bot_user=PromptTemplate("Folders: a, b.\nSort this mail:\n{mail}")
    )
    world.switch()
    world.activate(better)
    changed = substituted(world, chat(OLD, user=OLD))
    assert changed.request == chat(NEW, user=OLD)
    around = chat("Be brief.", user="(1 of 2)\n" + ask.format(mail="Hi {x}"))
    sent = "(1 of 2)\nFolders: a, b.\nSort this mail:\nHi {x}"
    assert substituted(world, around).request == chat("Be brief.", user=sent)


def test_several_prompts_in_one_text_are_all_replaced(world: World) -> None:
    task = PromptTemplate("Find out what this mail ({mail}) wants from the shop.")
    expected = PromptTemplate("Answer with one word for the matter.")
    world.candidate(bot_user=task, bot_rest_user=expected)
    better = world.candidate(
        bot_user=PromptTemplate("Sort this mail: {mail}."),
        bot_rest_user=PromptTemplate("One word."),
    )
    world.switch()
    world.activate(better)
    user = f"# Task\n{task.format(mail='Hi {x}')}\n# Expected\n{expected.text}\nBegin."
    changed = substituted(world, chat("Be brief.", user=user))
    sent = "# Task\nSort this mail: Hi {x}.\n# Expected\nOne word.\nBegin."
    assert changed.request == chat("Be brief.", user=sent)
    assert changed.attributes["ratchet.prompt.name"] == ["bot.user", "bot.rest.user"]


def test_nothing_is_replaced_for_an_agent_that_is_not_switched_on(
    world: World, improved: Candidate
) -> None:
    world.switch(on=False)
    target = world.rollout(improved.id)
    request = chat(OLD)
    for one in (BOT, target, GatewayTarget(agent="unknown")):
        assert substituted(world, request, one) is None


def test_what_the_candidate_has_already_stays_and_the_span_says_so(
    world: World, improved: Candidate
) -> None:
    request = chat(NEW)
    found = substituted(world, request)
    assert found.request is request
    assert found.attributes["ratchet.prompt.version"] == version_of(BETTER)
    assert found.attributes["ratchet.prompt.candidate_version"] == version_of(BETTER)
    assert "ratchet.prompt.not_replaced" not in found.attributes


def test_a_slot_that_nothing_fills_leaves_the_prompt_and_the_span_says_why(
    world: World, improved: Candidate
) -> None:
    world.activate(world.candidate(bot_system=PromptTemplate("Book rooms in {city}.")))
    request = chat(OLD)
    found = substituted(world, request)
    assert found.request is request
    assert "slot {city}" in found.attributes["ratchet.prompt.not_replaced"]
    assert found.attributes["ratchet.prompt.candidate_version"] == ""
    assert found.attributes["ratchet.prompt.version"] == version_of(SOURCE)


SHARED = (
    "You are part of a system of several agents, which hand conversations over to one another."
    " Never mention this to the customer.\n"
)
AGENTS: dict[str, Resource] = {
    "airline.triage.system": PromptTemplate(f"{SHARED}You find out who can help the customer."),
    "airline.seat.system": PromptTemplate(
        f"{SHARED}You book seats for the confirmation number {{number}}. Ask for the seat."
    ),
    "airline.status.system": PromptTemplate(
        f"{SHARED}You report delays for the confirmation number {{number}}. Be brief."
    ),
}


@pytest.mark.parametrize(
    "better",
    [
        f"{SHARED}Book the seat that the customer with the number {{number}} wants.",
        f"{SHARED}{{number}}",
        "Book seats. {number}",
    ],
    ids=["begins alike", "nothing but the beginning", "another beginning"],
)
@pytest.mark.parametrize("whole", [True, False], ids=["all prompts", "one prompt"])
def test_a_change_of_one_agents_prompt_changes_that_agents_calls_only(
    world: World, better: str, whole: bool
) -> None:
    world.store.candidates.put(Candidate.of(AGENTS))
    changed = {"airline.seat.system": PromptTemplate(better)}
    active = Candidate.of({**AGENTS, **changed} if whole else changed)
    world.store.candidates.put(active)
    world.switch("airline")
    world.activate(active, "airline")
    substituter = PromptSubstituter(world.store)
    for name, template in AGENTS.items():
        assert isinstance(template, PromptTemplate)
        slots = {"number": "LL0EZ6"} if "{number}" in template.text else {}
        request = chat(template.format(**slots))
        found = run(substituter(GatewayTarget(agent="airline"), request, CHAT))
        assert found is not None
        own = name == "airline.seat.system"
        assert found.request == (chat(better.replace("{number}", "LL0EZ6")) if own else request)
        if own or whole:
            assert found.attributes["ratchet.prompt.name"] == name
        else:
            assert "ratchet.prompt.name" not in found.attributes


def test_a_long_prompt_and_many_prompts_are_looked_at_within_bounds(
    world: World, improved: Candidate
) -> None:
    long = {**FILLED, "documents": "x" * 100_000}
    found = substituted(world, chat(SOURCE.format(**long)))
    assert found.request == chat(BETTER.format(**long))
    found = substituted(world, chat(*[OLD] * 100))
    changed = [m["content"] == NEW for m in found.request["messages"]]
    assert changed[:32] == [True] * 32
    assert not any(changed[32:])


def test_a_switch_and_an_activation_are_seen_after_a_short_time_and_not_read_each_time(
    world: World, improved: Candidate
) -> None:
    clock = Clock()
    request = chat(OLD)

    async def main() -> None:
        substitutes = PromptSubstituter(world.store, clock=clock)
        found = await substitutes(BOT, request, CHAT)
        assert found is not None
        other = world.candidate(bot_system=PromptTemplate("Other. {date}"))
        world.activate(other)
        found = await substitutes(BOT, request, CHAT)
        assert found is not None
        assert found.attributes["ratchet.candidate_id"] == improved.id
        clock.now += CACHE_TTL_S
        found = await substitutes(BOT, request, CHAT)
        assert found is not None
        assert found.request == chat("Other. 2026-11-02")
        world.switch(on=False)
        clock.now += CACHE_TTL_S
        assert await substitutes(BOT, request, CHAT) is None
        # A version that was registered meanwhile is recognised then, too.
        world.switch()
        new = PromptTemplate("A new prompt of the agent, made on {date}.")
        assert (await asks(substitutes, new)) is None
        clock.now += CACHE_TTL_S
        assert (await asks(substitutes, new)) is not None
        world.store.resources.put("bot.system", new)
        clock.now += CACHE_TTL_S
        found = await asks(substitutes, new)
        assert found is not None
        assert found.request == chat("Other. today")

    async def asks(substitutes: PromptSubstituter, template: PromptTemplate) -> Any:
        return await substitutes(BOT, chat(template.format(date="today")), CHAT)

    run(main())


class Counting:
    """A store whose reads are counted, slow, or fail as a test says."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.reads = 0
        self.failure: Exception | None = None
        self.gate: threading.Event | None = None

    def __getattr__(self, name: str) -> Any:
        repository = getattr(self._store, name)
        wrapped = {"__getattr__": lambda _, name: partial(self._read, getattr(repository, name))}
        return type("Wrapped", (), wrapped)()

    def _read(self, method: Callable[..., Any], *arguments: Any) -> Any:
        self.reads += 1
        if self.gate is not None:
            assert self.gate.wait(60)
        if self.failure is not None:
            raise self.failure
        return method(*arguments)


@pytest.fixture
def counting(world: World) -> Iterator[Any]:
    """A store of which a test says how it behaves."""
    made = Counting(world.store)
    yield made
    if made.gate is not None:
        made.gate.set()


def test_the_store_is_read_once_for_a_crowd_and_not_at_all_while_what_was_read_holds(
    improved: Candidate, counting: Any
) -> None:
    clock = Clock()
    request = chat(OLD)

    async def main() -> None:
        substitutes = PromptSubstituter(counting, clock=clock)
        counting.gate = threading.Event()
        crowd = [asyncio.create_task(substitutes(BOT, request, CHAT)) for _ in range(50)]
        await asyncio.sleep(0)
        counting.gate.set()
        found = await asyncio.gather(*crowd)
        assert all(one is not None and one.request != request for one in found)
        first = counting.reads
        assert first < 12
        for _ in range(100):
            await substitutes(BOT, request, CHAT)
        assert counting.reads == first

    run(main())


def test_a_store_that_fails_is_an_error_that_holds_for_a_moment(
    improved: Candidate, counting: Any
) -> None:
    clock = Clock()

    async def main() -> None:
        substitutes = PromptSubstituter(counting, clock=clock)
        counting.failure = StoreError("The disk is gone.", hint="Look at it.")
        for _ in range(3):
            with pytest.raises(StoreError, match=r"The disk is gone\. Look at it\."):
                await substitutes(BOT, chat("x"), CHAT)
        assert counting.reads == 1
        counting.failure = ValueError("a defect")
        clock.now += CACHE_TTL_S
        with pytest.raises(StoreError, match="ValueError"):
            await substitutes(BOT, chat("x"), CHAT)
        counting.failure = None
        clock.now += CACHE_TTL_S
        assert await substitutes(BOT, chat(OLD), CHAT) is not None

    run(main())


def test_a_store_that_hangs_is_waited_for_so_long_and_no_longer(
    improved: Candidate, counting: Any
) -> None:
    request = chat(OLD)

    async def main() -> None:
        substitutes = PromptSubstituter(counting, timeout_s=0.05)
        counting.gate = threading.Event()
        with pytest.raises(StoreError, match="did not respond within"):
            await substitutes(BOT, request, CHAT)
        counting.gate.set()

    run(main())


def test_a_rollout_or_a_candidate_that_is_not_there_is_an_error(world: World) -> None:
    world.switch()
    with pytest.raises(InputError, match="no rollout 'gone'"):
        substituted(world, chat("x"), GatewayTarget(rollout_id="gone", fence=1))
    with pytest.raises(InputError, match="no candidate"):
        substituted(world, chat("x"), world.rollout("f" * 64))


# From here on through the gateway and the official clients.


@pytest.fixture
def site(
    world: World, improved: Candidate, open_site: Callable[..., Site], upstream: StubUpstream
) -> Site:
    """A gateway that replaces prompts."""
    upstream.answers({"id": "x", "model": "m", "choices": [], "content": [], "output": []})
    return open_site(*both(upstream), substitute=PromptSubstituter(world.store))


def hello(content: Any = "Hi") -> Any:
    return [{"role": "user", "content": content}]


def parts(*texts: str, **more: Any) -> list[Any]:
    return [{"type": "text", "text": text, **more} for text in texts]


CHATS, RESPONSES, MESSAGES = "openai/chat/completions", "openai/responses", "anthropic/v1/messages"
REPLACED: list[tuple[str, dict[str, Any]]] = [
    (CHATS, {"messages": [{"role": "system", "content": OLD}, *hello()]}),
    (CHATS, {"messages": [{"role": "developer", "content": parts("Hm.", OLD)}, *hello()]}),
    (CHATS, {"messages": hello(OLD)}),
    (RESPONSES, {"instructions": OLD, "input": "Hi"}),
    (RESPONSES, {"input": [{"role": "developer", "content": OLD}, *hello()]}),
    ("openai/completions", {"prompt": OLD}),
    (MESSAGES, {"system": OLD, "messages": hello()}),
    (MESSAGES, {"system": parts(OLD, cache_control={"type": "ephemeral"}), "messages": hello()}),
]
LEFT: list[tuple[str, dict[str, Any]]] = [
    ("openai/completions", {"prompt": f"Now: {OLD}"}),
    (CHATS, {"messages": [{"role": "system", "content": "Be brief."}, *hello(OLD)]}),
]


@pytest.mark.parametrize(("path", "body"), [*REPLACED, *LEFT])
def test_prompts_are_replaced_in_every_dialect(
    site: Site, upstream: StubUpstream, path: str, body: dict[str, Any]
) -> None:
    url = f"http://127.0.0.1:{site.port}/gateway/bot/{path}"
    httpx2.post(url, json={"model": "m", **body}).raise_for_status()
    attributes = site.span().attributes
    if (path, body) in LEFT:
        assert upstream.seen[0].json == {"model": "m", **body}
        assert attributes.get("ratchet.prompt.name") is None
        return
    old, new = (json.dumps(text)[1:-1] for text in (OLD, NEW))
    changed = json.loads(json.dumps(body).replace(old, new))
    assert upstream.seen[0].json == {"model": "m", **changed}
    assert attributes["ratchet.prompt.name"] == "bot.system"
    assert attributes["ratchet.prompt.version"] == version_of(SOURCE)
    assert attributes["ratchet.prompt.candidate_version"] == version_of(BETTER)
    recorded = str(attributes)
    assert "Ask back when unsure." in recorded  # what was sent is what is recorded
    assert "Today is" not in recorded


def sent_as(site: Site, upstream: StubUpstream, body: bytes) -> bytes:
    """What the upstream gets of a raw request."""
    url = f"{site.url('bot')}/chat/completions"
    headers = {"content-type": "application/json", "authorization": "Bearer k"}
    urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=10).close()
    return upstream.seen[-1].body


def test_what_else_is_in_the_request_stays_as_it_is(site: Site, upstream: StubUpstream) -> None:
    sent = sent_as(
        site,
        upstream,
        b'{"model" : "m","temperature":0.10,"messages":[{"role":"system","content":'
        b'"You are a booking assistant. Today is \\u0032\\u0030.\\n\\nBe brief."},'
        b'{"role":"user","content":"caf\\u00e9"}],"seed":12345678901234567890,"more":[1e5]}',
    )
    assert b'"temperature":0.10' in sent
    assert b'"seed":12345678901234567890' in sent
    assert b'"more":[1e5]' in sent
    system, user = upstream.seen[0].json["messages"]
    assert system["content"] == "You book rooms. It is 20. Ask back when unsure."
    assert user["content"] == "café"


def test_an_attempt_does_not_run_with_the_wrong_prompt_when_the_store_fails(
    world: World, improved: Candidate, open_site: Callable[..., Site], upstream: StubUpstream
) -> None:
    upstream.answers({"id": "x", "model": "m", "choices": []})
    counting: Any = Counting(world.store)
    counting.failure = StoreError("The disk is gone.")
    site = open_site(*both(upstream), substitute=PromptSubstituter(counting))
    target = world.rollout(improved.id)
    client = openai.OpenAI(base_url=site.url(str(target)), api_key="k", max_retries=0)
    with pytest.raises(openai.InternalServerError, match=r"The disk is gone"):
        client.chat.completions.create(model="m", messages=hello())
    assert upstream.seen == []
    # Live traffic goes on as it came, and its span says why.
    client = openai.OpenAI(base_url=site.url("bot"), api_key="k", max_retries=0)
    client.chat.completions.create(
        model="m", messages=[{"role": "system", "content": OLD}, *hello()]
    )
    assert upstream.seen[0].json["messages"][0]["content"] == OLD
    assert "The disk is gone" in site.span().attributes["ratchet.substitution.error"]


def test_a_candidate_far_from_the_source_still_replaces_what_the_source_says(world: World) -> None:
    """A search stores hundreds of versions; the agent goes on sending the first."""
    parent = world.candidate(bot_system=SOURCE)
    for number in range(250):
        text = PromptTemplate(f"Version {number} of the rules. {{date}} {{documents}}")
        child = parent.derive({"bot.system": text}, algorithm="evolve")
        world.store.candidates.put(child)
        parent = child if number % 5 == 0 else parent
    better = parent.derive({"bot.system": BETTER}, algorithm="evolve")
    world.store.candidates.put(better)
    world.switch()
    world.activate(better)
    assert substituted(world, chat(OLD)).request == chat(NEW)


def test_rollouts_of_discovered_prompts_are_replaced_without_a_setting(world: World) -> None:
    source = Candidate.of({"bot.system": SOURCE}, algorithm="discover")
    better = source.derive({"bot.system": BETTER}, algorithm="evolve")
    for candidate in (source, better):
        world.store.candidates.put(candidate)
    target = world.rollout(better.id)
    assert substituted(world, chat(OLD), target).request == chat(NEW)
    declared = world.rollout(world.candidate(bot_system=BETTER, other=SOURCE).id, name="r2")
    unknown = world.rollout("not-stored", name="r3")
    for target in (declared, unknown):
        assert substituted(world, chat(OLD), target) is None


TRAINED = Model("local/abc", adapter=Adapter("abc", "base"))


def test_a_rollout_of_trained_weights_names_them_as_the_model(world: World) -> None:
    trained = world.candidate(model=TRAINED)
    request = chat("Anything.")
    sent = substituted(world, request, world.rollout(trained.id))
    assert sent.request == {**request, "model": "local/abc"}
    assert request["model"] == "m"
    plain = world.candidate(model=Model("other"))
    target = world.rollout(plain.id, name="r2")
    assert substituted(world, request, target) is None


def test_prompts_that_the_agents_process_has_are_left_to_it(world: World) -> None:
    world.candidate(bot_system=SOURCE)
    trained = world.candidate(bot_system=BETTER, model=TRAINED)
    request = chat(OLD)
    sent = substituted(world, request, world.rollout(trained.id))
    assert sent.request == {**request, "model": "local/abc"}


def test_what_was_known_holds_while_the_store_is_away(improved: Candidate, counting: Any) -> None:
    clock = Clock()
    request = chat(OLD)

    async def main() -> None:
        substitutes = PromptSubstituter(counting, clock=clock)
        before = await substitutes(BOT, request, CHAT)
        counting.failure = StoreError("The disk is gone.")
        clock.now += 100 * CACHE_TTL_S
        assert await substitutes(BOT, request, CHAT) == before
        assert before is not None

    run(main())


def test_a_defect_is_an_error_that_the_gateway_knows(world: World, improved: Candidate) -> None:
    class Broken:
        def prompt_texts(self, request: Any) -> Any:
            raise KeyError("broken")

    dialect: Any = Broken()
    with pytest.raises(RatchetError, match="KeyError"):
        run(PromptSubstituter(world.store)(BOT, chat("x"), dialect))


def test_half_a_character_in_a_request_does_not_keep_its_prompt_from_being_replaced(
    site: Site, upstream: StubUpstream
) -> None:
    system = {"role": "system", "content": OLD}
    messages = [system, {"role": "user", "content": "\ud83d?"}]
    sent_as(site, upstream, json.dumps({"model": "m", "messages": messages}).encode())
    assert upstream.seen[0].json["messages"] == [{**system, "content": NEW}, messages[1]]
