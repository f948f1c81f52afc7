"""The agent: a model with one tool, which lists the rooms and their bookings on a day."""

from __future__ import annotations

import asyncio
import json
import os
import weakref
from typing import Any

import ratchet
from openai import AsyncOpenAI

from .rooms import OFFICE, TOOLS, rooms_on

MODEL = "gpt-6-luna"
TURNS = 4

SYSTEM = ratchet.prompt(
    "system",
    "You are a booking assistant for {office}. Help people with meeting rooms.",
)


@ratchet.tool
def list_rooms(date: str) -> dict[str, Any]:
    """The rooms, with their bookings on a date."""
    return {"date": date, "rooms": rooms_on(date)}


@ratchet.agent
async def book(request: str) -> str:
    """Which room to book: its id, or `none`."""
    messages: list[Any] = [
        {"role": "system", "content": SYSTEM.format(office=OFFICE)},
        {"role": "user", "content": request},
    ]
    for _ in range(TURNS):
        message = await _ask(messages)
        if not message.tool_calls:
            return (message.content or "").strip()
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            result = _use(call.function.name, call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    # A wrong answer, not a crash: another prompt may mend it.
    return f"No answer in {TURNS} turns."


async def _ask(messages: list[Any]) -> Any:
    model = os.environ.get("ROOM_BOOKING_MODEL") or MODEL
    with ratchet.llm_call(model=model) as call:
        call.input = {"messages": messages, "tools": TOOLS}
        completion = await _client().chat.completions.create(
            model=model, messages=messages, tools=TOOLS
        )
        call.output = completion
    return completion.choices[0].message


def _use(name: str, arguments: str) -> str:
    """Result of a tool call for the model; errors in the model's call are returned to it."""
    if name != "list_rooms":
        return f"There is no tool {name!r}."
    try:
        return json.dumps(list_rooms(json.loads(arguments)["date"]))
    except (ValueError, LookupError, TypeError) as error:
        return f"list_rooms needs a date as YYYY-MM-DD ({type(error).__name__}: {error})."


_clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncOpenAI] = (
    weakref.WeakKeyDictionary()
)


def _client() -> AsyncOpenAI:
    """One client for all calls of an event loop, so that they share its connections."""
    loop = asyncio.get_running_loop()
    if loop not in _clients:
        _clients[loop] = AsyncOpenAI()
    return _clients[loop]
