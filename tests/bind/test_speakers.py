"""Prompts of several agents, told apart by who speaks."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.bind.discover import Discovery, RefusedTexts, discover
from ratchet.bind.prompt_names import proposal_names
from ratchet.bind.recognise import Recogniser, RegisteredPrompt, recognise
from ratchet.bind.speakers import discover_by_speaker, speakers_of
from ratchet.types import PromptUse

SHARED = (
    "# System context\nYou are part of a multi-agent system, which makes the coordination of agents"
    " easy. Handoffs are achieved by calling a handoff function, generally named"
    " `transfer_to_<agent_name>`. Transfers between agents are handled seamlessly in the"
    " background; do not mention these transfers in your conversation with the user.\n"
)
ENDING = "\nIf the customer asks anything else, transfer back to the triage agent."


def triage(number: int) -> str:
    return (
        f"{SHARED}You are a helpful triaging agent. You can use your tools to delegate questions to"
        " other appropriate agents."
    )


def seat(number: int) -> str:
    return (
        f"{SHARED}You are a seat booking agent. Use the following routine.\n1. The customer's"
        f" confirmation number is LL{number}. If it is unknown, ask the customer for it.\n2. Ask"
        f" the customer for the seat, and use the update seat tool to change it.{ENDING}"
    )


def status(number: int) -> str:
    return (
        f"{SHARED}You are a flight status agent. Use the following routine.\n1. The customer's"
        f" confirmation number is LL{number} and the flight is FLT-{number}. Ask for what is"
        f" missing.\n2. Use the flight status tool to report the status of the flight.{ENDING}"
    )


def questions(number: int) -> str:
    return (
        f"{SHARED}You are an FAQ agent. Identify the last question of the customer, and look the"
        f" answer up with the faq lookup tool. Do not rely on your own knowledge.{ENDING}"
    )


Maker = Callable[[int], str]
AGENTS: dict[str, Maker] = {
    "Triage Agent": triage,
    "Seat Booking Agent": seat,
    "Flight Status Agent": status,
    "FAQ Agent": questions,
}
TEMPLATES = {
    name: make(77).replace("LL77", "{slot_1}").replace("FLT-77", "{slot_2}")
    for name, make in AGENTS.items()
}


def uses(calls: int, *, named: bool = True, tools: bool = True) -> list[PromptUse]:
    """That many calls of each agent."""
    return [
        PromptUse(
            make(number),
            name if named else "",
            frozenset({f"tool of {name}"} if tools else ()),
        )
        for name, make in AGENTS.items()
        for number in range(calls)
    ]


def texts_of(found: Discovery) -> set[str]:
    return {proposal.template.text for proposal in found.proposals}


@pytest.mark.parametrize("calls", [3, 8, 50])
@pytest.mark.parametrize(
    ("named", "tools"),
    [(True, True), (True, False), (False, True), (False, False)],
    ids=["named, with tools", "named", "with tools", "by text alone"],
)
def test_each_agent_has_its_own_prompt_though_all_begin_and_end_alike(
    calls: int, named: bool, tools: bool
) -> None:
    found = discover_by_speaker(uses(calls, named=named, tools=tools))
    assert texts_of(found) == set(TEMPLATES.values())
    assert [proposal.count for proposal in found.proposals] == [calls] * 4
    assert (found.total, found.refused, found.left_out) == (4 * calls, (), {})
    if named:
        assert {one.speaker: one.template.text for one in found.proposals} == TEMPLATES


def test_texts_of_several_agents_are_aligned_with_one_another_nowhere() -> None:
    # What was wrong: six calls of four agents made two templates whose slots hold whole prompts.
    calls = [(name, number) for name in AGENTS for number in range(1 + (name[0] in "TF"))]
    some = [PromptUse(AGENTS[name](number), name) for name, number in calls]
    assert len(some) == 7
    found = discover_by_speaker(some)
    assert texts_of(found) == {TEMPLATES["Flight Status Agent"]}
    assert {one.speaker: one.reason for one in found.refused} == {
        "Triage Agent": "sent twice, always with the same text; more calls would show what varies",
        "FAQ Agent": "sent twice, always with the same text; more calls would show what varies",
        "Seat Booking Agent": "sent only once, so it is unknown what varies in it",
    }


def test_the_order_of_the_calls_does_not_matter() -> None:
    some = [*uses(7), *uses(5, named=False), *uses(2, named=False, tools=False)]
    expected = discover_by_speaker(some)
    for seed in range(4):
        assert discover_by_speaker(random.Random(seed).sample(some, len(some))) == expected


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        (
            ["One prompt, which is always the same."],
            "sent only once, so it is unknown what varies in it",
        ),
        (
            ["One prompt, which is always the same."] * 2,
            "sent twice, always with the same text; more calls would show what varies",
        ),
        (
            [
                f"{SHARED}You book.",
                f"{SHARED}You tell jokes about what people like, and no others.",
            ],
            "sent twice, with different texts; more calls would show what they share",
        ),
        (
            [
                f"You are kind.\n{' '.join(f'{n}{word}' for word in 'abcdefghij' * 9)}"
                for n in range(30)
            ],
            "sent 30 times, with texts that have too little in common",
        ),
    ],
)
def test_what_the_calls_cannot_carry_is_refused_with_the_reason(
    texts: list[str], reason: str
) -> None:
    found = discover_by_speaker([PromptUse(text, "writer") for text in texts])
    assert found.proposals == ()
    assert found.refused == (RefusedTexts("writer", len(set(texts)), len(texts), reason),)


def test_three_calls_with_one_text_and_two_with_nearly_one_are_enough() -> None:
    same = [PromptUse("One prompt, which is always the same.", "writer")] * 3
    assert [one.count for one in discover_by_speaker(same).proposals] == [3]
    nearly = [PromptUse(seat(number), "seats") for number in range(2)]
    assert texts_of(discover_by_speaker(nearly)) == {TEMPLATES["Seat Booking Agent"]}


def test_one_agent_with_other_tools_in_each_call_has_one_prompt() -> None:
    tools = random.Random(2)
    some = [
        PromptUse(seat(number), name, frozenset(tools.sample("abcdefgh", tools.randrange(4))))
        for number in range(40)
        for name in ("seats",)
    ]
    (proposal,) = discover_by_speaker(some).proposals
    assert (proposal.template.text, proposal.count) == (TEMPLATES["Seat Booking Agent"], 40)


def test_one_text_with_other_tools_is_one_prompt() -> None:
    some = [PromptUse(triage(0), "", frozenset({tool})) for tool in "abc"]
    assert [one.count for one in discover_by_speaker(some).proposals] == [3]


def test_calls_without_a_name_are_of_the_agent_whose_prompt_they_have() -> None:
    found = discover_by_speaker([*uses(5), *uses(9, named=False, tools=False)])
    assert {one.speaker: one.count for one in found.proposals} == dict.fromkeys(AGENTS, 14)
    assert texts_of(found) == set(TEMPLATES.values())


def test_a_prompt_that_two_agents_share_is_one_prompt() -> None:
    some = [
        PromptUse(seat(number), name, count=count)
        for name, count in (("first", 1), ("second", 2))
        for number in range(5)
    ]
    (proposal,) = discover_by_speaker(some).proposals
    assert (proposal.speaker, proposal.count) == ("second", 15)


def test_identifiers_in_names_do_not_make_agents() -> None:
    some = [PromptUse(seat(n), f"seats-{n:04x}ab12-77") for n in range(6)]
    (proposal,) = discover_by_speaker(some).proposals
    assert (proposal.speaker, proposal.count) == ("seats", 6)
    assert speakers_of(some) == {"seats"}
    assert speakers_of([PromptUse("x", "Debater 1"), PromptUse("x", "Debater 2")]) == {
        "Debater 1",
        "Debater 2",
    }


def test_a_template_in_whose_slot_other_agents_prompts_disappear_is_refused() -> None:
    words = random.Random(3)
    free = [
        PromptUse(SHARED + " ".join(str(words.random()) for _ in range(20)), "free")
        for _ in range(30)
    ]
    assert [one.speaker for one in discover_by_speaker(free).proposals] == ["free"]
    found = discover_by_speaker([*free, PromptUse(questions(0), "FAQ Agent")])
    assert found.proposals == ()
    assert {one.speaker for one in found.refused} == {"free", "FAQ Agent"}


def test_each_agents_texts_are_recognised_as_its_own_prompt() -> None:
    found = discover_by_speaker(uses(10))
    recogniser = Recogniser(
        RegisteredPrompt(one.speaker, str(number), one.template)
        for number, one in enumerate(found.proposals)
    )
    for name, make in AGENTS.items():
        for number in (3, 123_456):
            recognised = recogniser.find(make(number))
            assert recognised is not None
            assert recognised.name == name


def test_by_one_speaker_the_same_is_found_as_by_text_alone() -> None:
    some = [(make(number), 1) for make in AGENTS.values() for number in range(12)]
    plain = discover(some)
    spoken = discover_by_speaker(PromptUse(text, "all", count=count) for text, count in some)
    assert texts_of(spoken) == texts_of(plain)


def test_names_say_who_speaks_when_there_are_several() -> None:
    found = discover_by_speaker(uses(5))
    names = proposal_names(found.proposals, speakers_of(uses(5)), "airline")
    assert dict(zip(names, (one.speaker for one in found.proposals), strict=True)) == {
        "airline.triage_agent.system": "Triage Agent",
        "airline.seat_booking_agent.system": "Seat Booking Agent",
        "airline.flight_status_agent.system": "Flight Status Agent",
        "airline.faq_agent.system": "FAQ Agent",
    }
    alone = discover_by_speaker([PromptUse(triage(0), "Triage Agent", count=5)]).proposals
    assert proposal_names(alone, {"Triage Agent"}, "airline") == ["airline.system"]
    assert proposal_names(alone, {"Triage Agent", "other"}) == ["triage_agent.system"]
    assert proposal_names(alone, {"Triage Agent", "other"}, "triage_agent") == [
        "triage_agent.system"
    ]
    taken = {"airline.triage_agent.system", "airline.triage_agent.system_2"}
    assert proposal_names(alone, {"Triage Agent", "other"}, "airline", taken) == [
        "airline.triage_agent.system_3"
    ]


@pytest.mark.parametrize(
    ("speaker", "name"),
    [
        ("SeatBookingAgent", "a.seat_booking_agent.system"),
        ("FAQ-Agent (v2)", "a.faq_agent_v2.system"),
        ("客服", "a.客服.system"),
        ("***", "a.system"),
    ],
)
def test_any_agents_name_makes_a_name(speaker: str, name: str) -> None:
    found = discover_by_speaker([PromptUse(triage(0), speaker, count=5)])
    assert proposal_names(found.proposals, {speaker, "other"}, "a") == [name]


PARTS = st.sampled_from(
    [
        SHARED,
        triage(1),
        seat(1),
        "",
        "Today is ",
        "Documents:\n",
        "x {y}",
        "Bob",
        "17",
        "\n\n",
        "word " * 30,
    ]
)


@given(
    st.lists(
        st.builds(
            PromptUse,
            st.lists(PARTS, max_size=5).map("".join),
            st.sampled_from(["", "one", "two"]),
            st.sampled_from([frozenset(), frozenset("a"), frozenset("ab")]),
            st.integers(1, 6),
        ),
        max_size=40,
    ),
    st.randoms(),
)
def test_every_call_is_either_in_a_proposal_that_recognises_it_or_refused(
    some: list[PromptUse], shuffler: random.Random
) -> None:
    found = discover_by_speaker(some)
    assert found.total == sum(use.count for use in some)
    proposed = sum(one.count for one in found.proposals)
    refused = sum(one.count for one in found.refused)
    assert proposed + refused + sum(found.left_out.values()) == found.total
    for proposal in found.proposals:
        fitting = [use for use in some if recognise(proposal.template, use.text) is not None]
        assert sum(use.count for use in fitting) >= proposal.count
        assert proposal.speaker in {use.speaker for use in fitting}
    assert discover_by_speaker(shuffler.sample(some, len(some))) == found
