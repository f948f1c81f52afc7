"""A system of several agents with handoffs: its traces, and each agent's prompt found in them."""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

import pytest
from agents.extensions.handoff_prompt import RECOMMENDED_PROMPT_PREFIX

from ratchet.autopilot.recorded_prompts import FoundPrompts, find_prompts
from ratchet.types import Span
from tests.frameworks.model_simulator import ModelSimulator
from tests.frameworks.running import recorded

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("several agents")]


@pytest.fixture(scope="module")
def spans(tmp_path_factory: pytest.TempPathFactory) -> list[Span]:
    """The spans of twelve runs, each of the triage agent and of one that it hands over to."""
    folder = tmp_path_factory.mktemp("airline")
    with ModelSimulator() as on:
        return recorded("openai_agents_airline", Path(sys.executable), folder, on.url)


@pytest.fixture(scope="module")
def found(spans: list[Span]) -> FoundPrompts:
    """The prompts in them."""
    return find_prompts(spans, "airline")


def test_the_root_of_a_run_is_recorded_once(spans: list[Span]) -> None:
    assert Counter(span.name for span in spans)["Agent workflow"] == 12
    roots = {span.span_id for span in spans if span.parent_id is None}
    agents = {span.name for span in spans if span.parent_id in roots}
    assert agents == {"Triage Agent", "Seat Booking Agent", "Flight Status Agent", "FAQ Agent"}


def test_each_agent_has_its_own_prompt_though_all_begin_alike(found: FoundPrompts) -> None:
    assert not found.refused
    assert found.calls == 24
    assert {
        name: each.count
        for name, each in zip(found.prompts, found.discovery.proposals, strict=True)
    } == {
        "airline.triage_agent.system": 12,
        "airline.faq_agent.system": 4,
        "airline.flight_status_agent.system": 4,
        "airline.seat_booking_agent.system": 4,
    }
    for prompt in found.prompts.values():
        assert prompt.text.startswith(RECOMMENDED_PROMPT_PREFIX.replace("{", "{{"))


def test_what_instructions_insert_for_a_customer_is_a_slot(found: FoundPrompts) -> None:
    slots = {
        name: [slot.examples[0] for slot in proposal.slots]
        for name, proposal in zip(found.prompts, found.discovery.proposals, strict=True)
    }
    assert slots == {
        "airline.triage_agent.system": [],
        "airline.faq_agent.system": [],
        "airline.flight_status_agent.system": ["LL0EZ1", "FLT-101"],
        "airline.seat_booking_agent.system": ["LL0EZ0"],
    }


def test_the_order_of_the_spans_does_not_matter(spans: list[Span], found: FoundPrompts) -> None:
    for seed in range(3):
        shuffled = random.Random(seed).sample(spans, len(spans))
        assert find_prompts(shuffled, "airline") == found


def test_runs_too_few_for_a_prompt_say_so(spans: list[Span]) -> None:
    traces = sorted(
        {span.trace_id: span.start_ns for span in reversed(spans)}.items(), key=lambda one: one[1]
    )
    first = {trace_id for trace_id, _ in traces[:3]}
    few = find_prompts([span for span in spans if span.trace_id in first], "airline")
    assert list(few.prompts) == ["airline.triage_agent.system"]
    assert few.refused == (
        "1 prompt of FAQ Agent: sent only once, so it is unknown what varies in it.",
        "1 prompt of Flight Status Agent: sent only once, so it is unknown what varies in it.",
        "1 prompt of Seat Booking Agent: sent only once, so it is unknown what varies in it.",
    )
