"""`ratchet prompts`, as a person and as a script use it."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from ratchet.cli.app import run
from ratchet.observe.model_apis import MODEL_APIS
from ratchet.store import Store
from ratchet.types import (
    Activation,
    Candidate,
    Int,
    Params,
    PromptTemplate,
    Rollout,
    Span,
    SpanRecord,
)

SYSTEM = "You are the assistant of {company}.\nToday is {date}.\nNever promise a refund."
NAMING = "You name conversations in at most five words."
CHAT = MODEL_APIS["openai", "chat/completions"]

Ratchet = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ratchet(
    sqlite_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Ratchet:
    """Runs `ratchet prompts` on a store; gives the exit code and both outputs."""
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(["prompts", *arguments, "--store", sqlite_url])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


numbers = itertools.count(1)


def span(attributes: dict[str, Any]) -> Span:
    number = next(numbers)
    return Span(
        trace_id=f"{number:032x}",
        span_id=f"{number:016x}",
        name="chat m",
        start_ns=number,
        end_ns=number + 1,
        attributes=attributes,
    )


def chat(system: str) -> Span:
    """A call as the gateway records it."""
    return span(
        CHAT.request_attributes(
            {
                "model": "m",
                "messages": [
                    {"role": "system", "content": system},
                    {"role": "user", "content": "Hello"},
                ],
            }
        )
    )


def record(store: Store, agent: str, spans: list[Span]) -> None:
    store.spans.put([SpanRecord(span=one, agent=agent) for one in spans])


def filled(count: int) -> list[str]:
    return [
        SYSTEM.format(company=f"Company {n % 7}", date=f"2026-11-{n % 28 + 1:02}")
        for n in range(count)
    ]


@pytest.fixture
def recorded(disk: Store) -> Store:
    """A store with an agent's calls: one prompt with slots, and one that never varies."""
    record(disk, "support", [chat(text) for text in filled(30)])
    record(disk, "support", [chat(NAMING) for _ in range(10)])
    record(disk, "support", [span({"gen_ai.operation.name": "execute_tool"}) for _ in range(5)])
    record(disk, "other", [chat("You are somebody else altogether, and you write poems.")])
    return disk


def test_templates_are_proposed_with_their_slots_and_their_share(
    ratchet: Ratchet, recorded: Store
) -> None:
    code, out, err = ratchet("discover", "--agent", "support")
    assert (code, err) == (0, "")
    assert "40 prompts in 40 calls of support." in out
    assert "1. support.system  75% of them, 30 times, 28 different texts" in out
    assert "    Today is {date}." in out
    assert re.search(r"date +28  '2026-11-\d\d', '2026", out)
    assert "2. support.system_2  25% of them, 10 times, always the same text" in out
    assert "Nothing is registered yet" in out
    assert "poems" not in out
    assert recorded.resources.names() == []


def test_registered_proposals_are_recognised_from_then_on(
    ratchet: Ratchet, recorded: Store
) -> None:
    code, out, _ = ratchet("discover", "--agent", "support", "--register")
    assert code == 0
    assert "Registered. Candidate" in out
    assert "ratchet prompts on support" in out
    assert recorded.resources.names("prompt") == ["support.system", "support.system_2"]
    _, out, _ = ratchet("discover", "--agent", "support", "--json")
    again = json.loads(out)
    assert again["proposals"] == []
    assert {(one["name"], one["count"]) for one in again["registered"]} == {
        ("support.system", 30),
        ("support.system_2", 10),
    }
    _, out, _ = ratchet("discover", "--agent", "support")
    assert "Registered as support.system" in out


def test_the_candidate_holds_what_is_registered_beside_what_is_active(
    ratchet: Ratchet, recorded: Store
) -> None:
    active = Candidate.of({"support.role": PromptTemplate("You are kind.")})
    recorded.candidates.put(active)
    recorded.agents.activate(Activation(agent="support", candidate_id=active.id, activated_at=1.0))
    _, out, _ = ratchet("discover", "--agent", "support", "--register", "--json")
    candidate = recorded.candidates.get(json.loads(out)["candidate"])
    assert sorted(candidate.resources) == ["support.role", "support.system", "support.system_2"]
    assert candidate.parents == (active.id,)
    proposal = json.loads(out)["proposals"][0]
    assert candidate.versions()[proposal["name"]] == proposal["version"]
    # What is active is still what was.
    found = recorded.agents.active("support")
    assert found is not None
    assert found.candidate_id == active.id


@pytest.mark.parametrize("names", [["a b"], [""], ["a", "a"], ["knobs"]])
def test_names_that_cannot_be_are_refused(
    ratchet: Ratchet, recorded: Store, names: list[str]
) -> None:
    recorded.resources.put("knobs", Params({"k": Int(5, 1, 20)}))
    options = [option for name in names for option in ("--name", name)]
    code, _, err = ratchet("discover", "--agent", "support", "--register", *options)
    assert code == 2
    assert "name" in err
    assert recorded.resources.names("prompt") == []


def test_rollouts_of_the_queue_are_looked_at_too(ratchet: Ratchet, disk: Store) -> None:
    texts = filled(6)
    disk.rollouts.create(
        [
            Rollout(id=f"r{n}", queue="support", candidate_id="", task_id="t", input=n)
            for n in range(3)
        ],
        time.time(),
    )
    for number, text in enumerate(texts[:3]):
        disk.spans.add(f"r{number}", 1, [chat(text)])
    record(disk, "support", [chat(text) for text in texts[3:]])
    _, out, _ = ratchet("discover", "--agent", "support", "--json")
    found = json.loads(out)
    assert found["calls"] == 6
    assert found["proposals"][0]["count"] == 6


SHARED = "You are one of several agents of an airline. Never speak of the other agents.\n"
BOOKING = SHARED + "You book seats. The confirmation number is {number}. Ask for the seat."
STATUS = SHARED + "You report delays. Look the flight up before you answer, and be brief."


def spoken(agent: str, system: str, tools: list[str]) -> list[Span]:
    """A call beneath the run of an agent."""
    run = span({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent})
    call = chat(system)
    offered = json.dumps([{"type": "function", "name": tool} for tool in tools])
    attributes = {**call.attributes, "gen_ai.tool.definitions": offered}
    return [
        msgspec.structs.replace(
            call, trace_id=run.trace_id, parent_id=run.span_id, attributes=attributes
        ),
        run,
    ]


def test_each_agent_of_a_system_gets_a_proposal_under_its_name(
    ratchet: Ratchet, disk: Store
) -> None:
    for number in range(4):
        text = BOOKING.format(number=f"LL{number}")
        record(disk, "airline", spoken("Seat Agent", text, ["seats"]))
    for _ in range(3):
        record(disk, "airline", spoken("Status Agent", STATUS, ["flights"]))
    for number in range(2):
        record(disk, "airline", spoken("FAQ", f"{SHARED}{'Tell jokes. ' * 9 * number}", []))
    code, out, _ = ratchet("discover", "--agent", "airline", "--register")
    assert code == 0
    assert "1. airline.seat_agent.system  44% of them, 4 times, 4 different texts" in out
    assert "2. airline.status_agent.system  33% of them, 3 times, always the same text" in out
    refusal = (
        "Refused 2 of FAQ: sent twice, with different texts; more calls would show what they share."
    )
    assert refusal in out
    assert disk.resources.names("prompt") == [
        "airline.seat_agent.system",
        "airline.status_agent.system",
    ]
    # What is registered is recognised; the names of the others still say who speaks.
    for _ in range(3):
        record(disk, "airline", spoken("Refund Agent", f"{SHARED}You decide on refunds.", []))
    _, out, _ = ratchet("discover", "--agent", "airline", "--json")
    again = json.loads(out)
    assert [(one["name"], one["speaker"]) for one in again["proposals"]] == [
        ("airline.refund_agent.system", "Refund Agent")
    ]
    assert [(one["speaker"], one["count"]) for one in again["refused"]] == [("FAQ", 2)]


def test_an_agent_that_nothing_is_known_of_is_told_how_to_become_known(
    ratchet: Ratchet, disk: Store
) -> None:
    code, out, _ = ratchet("discover", "--agent", "nobody")
    assert code == 0
    assert "There is no recorded call of nobody with a system prompt" in out
    assert "/gateway/nobody/openai/v1" in out


def test_what_stands_in_a_prompt_is_shown_as_it_is(ratchet: Ratchet, disk: Store) -> None:
    text = 'You are [bold]brave[/bold] and answer with {{"a": [1]}} :smile: whatever happens.'
    record(disk, "support", [chat(text) for _ in range(3)])
    code, out, _ = ratchet("discover", "--agent", "support", "--register")
    assert code == 0
    assert "[bold]brave[/bold]" in out
    assert ":smile:" in out
    code, out, _ = ratchet("show", "support.system")
    assert code == 0
    assert "[bold]brave[/bold]" in out
    code, out, _ = ratchet("list")
    assert "[bold]brave[/bold]" in out


def test_the_list_shows_prompts_with_their_versions_and_agents_that_are_switched_on(
    ratchet: Ratchet, disk: Store
) -> None:
    code, out, _ = ratchet("list")
    assert code == 0
    assert "No prompt is registered" in out
    disk.resources.put("support.system", PromptTemplate("First."))
    newest = disk.resources.put("support.system", PromptTemplate("Second, of {a}."))
    disk.resources.put("other.system", PromptTemplate("Third."))
    disk.resources.put("support.knobs", Params({"k": Int(5, 1, 20)}))
    ratchet("on", "support")
    code, out, _ = ratchet("list")
    assert "support.system" in out
    assert "Second, of {a}." in out
    assert "other.system" in out
    assert "knobs" not in out
    assert "Replaced in the traffic of support." in out
    _, out, _ = ratchet("list", "--agent", "support", "--json")
    found = json.loads(out)
    assert found["agents"] == [{"name": "support", "substitute": True, "mirror": None}]
    (row,) = found["prompts"]
    assert (row["name"], row["versions"], row["newest"], row["slots"]) == (
        "support.system",
        2,
        newest,
        ["a"],
    )


def test_a_prompt_is_shown_with_its_versions(ratchet: Ratchet, disk: Store) -> None:
    first = disk.resources.put("support.system", PromptTemplate("Only {x}"))
    second = disk.resources.put("support.system", PromptTemplate("Second."))
    code, out, _ = ratchet("show", "support.system")
    assert code == 0
    assert "Second." in out
    assert first[:8] in out
    assert second[:8] in out
    _, out, _ = ratchet("show", "support.system", "--version", first[:8])
    assert "Only {x}" in out
    assert "The prompt is never recognised in a request" in out
    _, out, _ = ratchet("show", "support.system", "--json")
    found = json.loads(out)
    assert (found["version"], len(found["versions"])) == (second, 2)
    code, _, err = ratchet("show", "nothing")
    assert (code, "No prompt is named 'nothing'" in err) == (2, True)
    code, _, err = ratchet("show", "support.system", "--version", "zz")
    assert (code, "no version that begins with 'zz'" in err) == (2, True)


def test_switching_on_says_what_will_happen(ratchet: Ratchet, disk: Store) -> None:
    code, out, _ = ratchet("on", "support")
    assert code == 0
    assert disk.agents.settings("support").substitute
    assert "nothing is replaced until a candidate is active" in out
    assert "ratchet prompts discover --agent support --register" in out
    disk.resources.put("support.short", PromptTemplate("Only {x}"))
    active = Candidate.of({"support.system": PromptTemplate("You are kind to everybody.")})
    disk.candidates.put(active)
    disk.agents.activate(Activation(agent="support", candidate_id=active.id, activated_at=1.0))
    _, out, _ = ratchet("on", "support")
    assert f"the active candidate {active.id[:8]} has support.system." in out
    assert "support.short is never recognised" in out
    _, out, _ = ratchet("on", "support", "--json")
    found = json.loads(out)
    assert found["active_prompts"] == ["support.system"]
    assert list(found["not_recognised"]) == ["support.short"]


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a@1", "x" * 101, "ü"])
def test_an_agent_that_the_gateway_could_not_name_is_refused(
    ratchet: Ratchet, disk: Store, name: str
) -> None:
    code, _, err = ratchet("on", name)
    assert code == 2
    assert "is not a valid agent name" in err
    assert disk.agents.list() == []
