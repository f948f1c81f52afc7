"""Spans of long conversations of an agent with tools, as instrumentations record them.

Each model call carries the whole history again: a system prompt of 6 KB, which all conversations
share, and the messages so far, with the tools' results as JSON in strings.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

SYSTEM_CHARACTERS = 6_000
CALLS = 20
TOOLS_PER_ANSWER = 3
"""Every so many calls, and the last one, are answers to the user; the others call a tool."""

SPANS_PER_REQUEST = 10

_TEXT = (
    "agent airport amount answer any arrival ask available baggage basic because before "
    "between booking business cabin cancel cannot card certificate change check class "
    "compensation complete confirm cost customer date day delay departure details direct "
    "economy eligible every fare first flight for free from gift given hour if "
    "immediately in information insurance is itinerary leave less list made member must "
    "name need new not number of offer on one only option or original other passenger "
    "pay payment permitted phone policy price profile reason refund request reservation "
    "return route rule same seat segment service should silver some status such than "
    "that the their them then there this three ticket time to total travel trip two "
    "under unless until upgrade use user valid value what when which while who will with "
    "within without yes"
)
WORDS = _TEXT.split()


class RecordedSpan(NamedTuple):
    """One span: its place in the conversation, its name and its attributes."""

    parent: bool
    """Whether it is the agent's span, above the others."""
    name: str
    attributes: dict[str, Any]


def sentences(draw: random.Random, characters: int) -> str:
    """Sentences of words, of about so many characters."""
    said: list[str] = []
    while sum(map(len, said)) < characters:
        words = " ".join(draw.choices(WORDS, k=draw.randint(5, 16)))
        said.append(f"{words[0].upper()}{words[1:]}. ")
    return "".join(said).strip()


def code(draw: random.Random, length: int = 6) -> str:
    return "".join(draw.choices("ABCDEFGHJKLMNPQRSTUVWXYZ23456789", k=length))


def reservation(draw: random.Random) -> dict[str, Any]:
    """What a tool found."""
    flights = [
        {
            "flight_number": f"HAT{draw.randint(1, 299):03d}",
            "origin": code(draw, 3),
            "destination": code(draw, 3),
            "date": f"2026-05-{draw.randint(1, 28):02d}",
            "scheduled_departure": f"{draw.randint(0, 23):02d}:{draw.randint(0, 59):02d}",
            "price": draw.randint(50, 900),
            "available_seats": {
                "basic_economy": draw.randint(0, 20),
                "economy": draw.randint(0, 20),
            },
            "status": draw.choice(("available", "landed", "delayed")),
        }
        for _ in range(draw.randint(2, 6))
    ]
    return {
        "reservation_id": code(draw),
        "user_id": f"{draw.choice(WORDS)}_{draw.choice(WORDS)}_{draw.randint(1000, 9999)}",
        "contact": f"{draw.choice(WORDS)}.{draw.randint(10, 99)}@example.com",
        "cabin": draw.choice(("basic_economy", "economy", "business")),
        "flights": flights,
        "payment_history": [{"payment_id": f"gift_card_{code(draw, 8)}", "amount": 381}],
        "note": sentences(draw, 80),
    }


SYSTEM = "# Policy of the airline's agent\n\n" + sentences(random.Random(1), SYSTEM_CHARACTERS)


def text(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def conversation(seed: int) -> list[RecordedSpan]:
    """The spans of one conversation, in the order in which they end."""
    draw = random.Random(seed)
    named = {"gen_ai.conversation.id": f"chat-{seed}-{code(draw)}"}
    question = sentences(draw, 150)
    history = [text("system", SYSTEM), text("user", question)]
    spans: list[RecordedSpan] = []
    said = ""
    for number in range(1, CALLS + 1):
        answers = number % TOOLS_PER_ANSWER == 0 or number == CALLS
        if answers:
            said = sentences(draw, 220)
            output = text("assistant", said)
        else:
            asked = {
                "type": "tool_call",
                "id": f"call_{code(draw, 20)}",
                "name": "get_reservation_details",
                "arguments": {"reservation_id": code(draw)},
            }
            output = {"role": "assistant", "parts": [asked]}
        size = len(json.dumps(history))
        spans.append(
            RecordedSpan(
                False,
                "chat gpt-4o",
                {
                    **named,
                    "gen_ai.operation.name": "chat",
                    "gen_ai.provider.name": "openai",
                    "gen_ai.request.model": "gpt-4o",
                    "gen_ai.response.model": "gpt-4o-2024-08-06",
                    "gen_ai.response.finish_reasons": ["stop" if answers else "tool_calls"],
                    "gen_ai.usage.input_tokens": size // 4,
                    "gen_ai.usage.output_tokens": len(json.dumps(output)) // 4,
                    "gen_ai.input.messages": json.dumps(history),
                    "gen_ai.output.messages": json.dumps([output]),
                },
            )
        )
        history = [*history, output]
        if answers:
            history.append(text("user", sentences(draw, 120)))
            continue
        found = json.dumps(reservation(draw))
        call = output["parts"][0]
        spans.append(
            RecordedSpan(
                False,
                "execute_tool get_reservation_details",
                {
                    **named,
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": call["name"],
                    "gen_ai.tool.call.id": call["id"],
                    "gen_ai.tool.call.arguments": json.dumps(call["arguments"]),
                    "gen_ai.tool.call.result": found,
                },
            )
        )
        part = {"type": "tool_call_response", "id": call["id"], "response": found}
        history.append({"role": "tool", "parts": [part]})
    about = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "airline"}
    texts = {"ratchet.input": question, "ratchet.output": said}
    return [*spans, RecordedSpan(True, "invoke_agent airline", {**named, **about, **texts})]


def unique_bytes(conversations: list[list[RecordedSpan]]) -> int:
    """Bytes of the distinct texts of spans: each message, each other attribute's value, once."""
    found: set[str] = set()
    for span in (span for spans in conversations for span in spans):
        for key, value in span.attributes.items():
            if key.endswith(".messages"):
                found.update(json.dumps(message) for message in json.loads(value))
            elif isinstance(value, str):
                found.add(value)
    return sum(len(each.encode()) for each in found)


def in_requests(spans: list[RecordedSpan]) -> Iterator[list[RecordedSpan]]:
    """The spans of a conversation as an exporter groups them."""
    for begin in range(0, len(spans), SPANS_PER_REQUEST):
        yield spans[begin : begin + SPANS_PER_REQUEST]
