"""Rules are read from a prompt by meaning, whoever worded it."""

from __future__ import annotations

import pytest

from tests.simulator.reading import STRONG, read

WORDINGS = {
    "capacity": [
        "Make sure the room seats everyone.",
        "Capacity >= number of attendees.",
        "1. Filter: capacity at least the headcount",
        "The chosen room must accommodate the whole group.",
        "Discard rooms with fewer seats than people.",
        "A room that is too small is never acceptable.",
    ],
    "equipment": [
        "All requested equipment has to be present.",
        "Rooms without the gear that was asked for must be excluded.",
        "Verify that every item of equipment needed is available in the room.",
        "Reject rooms lacking any required item.",
    ],
    "accessible": [
        "If accessibility is required, pick only accessible rooms.",
        "Wheelchair users need a step-free room.",
        "Never send somebody with a mobility need to a room that is not accessible.",
    ],
    "available": [
        "The room must be free for the entire meeting.",
        "Do not pick rooms whose bookings overlap with the requested slot.",
        "Avoid conflicts with existing reservations.",
        "Check that it is available throughout the requested time slot.",
    ],
    "buffer": [
        "There must be a 10-minute buffer between meetings.",
        "Leave ten minutes before and after every other booking.",
        "Bookings need 10 minutes of turnaround.",
    ],
    "distance": [
        "Respect the maximum distance if one is given.",
        "The walking distance must not exceed the limit.",
        "Discard rooms farther away than the stated maximum, if they are too far.",
    ],
    "fit": [
        "Choose the smallest room that works.",
        "Pick the room with the least unused capacity.",
        "Minimise wasted seats.",
        "Take the best-fit room.",
        "Do not book the largest room.",
    ],
    "near": [
        "On a tie, choose the nearest.",
        "Then prefer the closest room.",
        "Ties are broken by the shortest walk.",
    ],
    "none": [
        "If no room qualifies, say 'none'.",
        "Return none when nothing matches.",
        "When the conditions cannot be satisfied by any room, reply with none.",
    ],
    "format": [
        "Output only the room id.",
        "Respond with just the identifier, nothing else.",
        "Your answer must be a single room ID.",
        "No explanation, no other words.",
        "Reply with the id of the room and nothing else",
    ],
}

DENIALS = {
    "capacity": [
        "Ignore capacity.",
        "Capacity does not matter.",
        "There is no need to check seats.",
    ],
    "equipment": ["Don't worry about equipment.", "Equipment is irrelevant, disregard it."],
    "available": ["Availability doesn't matter.", "Do not check the calendar."],
    "fit": ["Choose the largest room.", "Prefer the room with the most seats."],
    "none": ["Always suggest a room."],
    "format": ["Explain your reasoning.", "List all the options you considered."],
}


@pytest.mark.parametrize(
    ("rule", "sentence"), [(rule, text) for rule, texts in WORDINGS.items() for text in texts]
)
def test_any_wording_of_a_rule_states_it(rule: str, sentence: str) -> None:
    reading = read(f"You are an assistant.\n- {sentence}")
    assert reading.stated.get(rule) == STRONG, reading
    assert rule not in reading.denied


@pytest.mark.parametrize(
    ("rule", "sentence"), [(rule, text) for rule, texts in DENIALS.items() for text in texts]
)
def test_a_denial_is_not_a_statement(rule: str, sentence: str) -> None:
    reading = read(f"You are an assistant. {sentence}")
    assert rule in reading.denied
    assert rule not in reading.stated


def test_a_rule_named_in_passing_or_with_a_hedge_counts_for_less() -> None:
    full = read("The room must have enough seats.").stated["capacity"]
    topic = read("Check the capacity, the equipment and the calendar.").stated
    hedged = read("If possible, the room should have enough seats.").stated["capacity"]
    assert full > hedged > 0
    assert 0 < topic["capacity"] < full
    assert {"capacity", "equipment", "available"} <= set(topic)


@pytest.mark.parametrize(
    "prompt",
    [
        "You are a booking assistant for Harbour House. Help people with meeting rooms.",
        "Be helpful, precise and polite. Your work is important.",
        "Du hilfst beim Buchen. Das Zimmer muss groß genug für alle Personen sein.",
        "The rooms differ in what they offer.",
    ],
)
def test_what_states_no_rule_is_not_taken_for_one(prompt: str) -> None:
    reading = read(prompt)
    assert not reading.stated
    assert not reading.denied
