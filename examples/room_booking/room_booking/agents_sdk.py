"""The same agent in the OpenAI Agents SDK."""

from __future__ import annotations

import json
import os

import ratchet
from agents import (
    Agent,
    MaxTurnsExceeded,
    RunContextWrapper,
    Runner,
    function_tool,
    set_default_openai_api,
)

from .rooms import OFFICE, rooms_on

MODEL = "gpt-6-luna"
TURNS = 4

SYSTEM = ratchet.prompt(
    "system",
    "You are a booking assistant for {office}. Help people with meeting rooms.",
)

# A model on this machine, and most gateways, speak chat completions.
set_default_openai_api("chat_completions")


@function_tool
def list_rooms(date: str) -> str:
    """The meeting rooms of the office, with their bookings on a date.

    Args:
        date: As YYYY-MM-DD.
    """
    return json.dumps({"date": date, "rooms": rooms_on(date)})


def instructions(context: RunContextWrapper[None], agent: Agent[None]) -> str:
    """The prompt as it is when the agent runs."""
    return SYSTEM.format(office=OFFICE)


assistant = Agent[None](
    name="assistant",
    instructions=instructions,
    tools=[list_rooms],
    model=os.environ.get("ROOM_BOOKING_MODEL") or MODEL,
)


@ratchet.agent
async def book(request: str) -> str:
    """Which room to book: its id, or `none`."""
    try:
        result = await Runner.run(assistant, request, max_turns=TURNS)
    except MaxTurnsExceeded:
        return f"No answer in {TURNS} turns."
    return str(result.final_output).strip()
